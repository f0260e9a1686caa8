#!/bin/sh
# run_tests.sh - every step of `make test`: one line a step, the output of each in BUILD/test-logs, counts summed at the end.
#
# Environment: BUILD (build), ONLY (one CUnit suite and nothing else), FULL=1 (every golden file on every instruction set and
# thread count), SAN=1 (shorter golden steps: sanitized code is slow).
#
# Each step's line ends with its wall-clock seconds and, in brackets, its processor seconds: these do not depend on what else
# the machine does. The whole is to stay under 20 minutes on two cores: every array once on the best instruction set, the tiny
# cases on the others (FULL=1: everything everywhere).
set -u
BUILD=${BUILD:-build}
golden=$BUILD/bin/golden_check
logs=$BUILD/test-logs
shared=../shared/golden
mkdir -p "$logs"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1} UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
# The cases are small: threads that wait by spinning would cost ten times their work as soon as something else runs here.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
passed=0 failed=0 skipped=0

# processor seconds of what this script has run, in cpu; not in a subshell, which would count its own
count_cpu()
{
    times >"$logs/times"
    cpu=$(awk 'NR == 2 { split($1, u, /[ms]/); split($2, k, /[ms]/); printf "%d", 60 * (u[1] + k[1]) + u[2] + k[2] }' "$logs/times")
}

# step NAME COMMAND...: its last line must be "N passed, N failed[, N skipped]"
step()
{
    name=$1
    shift
    log=$logs/$(echo "$name" | tr ' /' '__').log
    begin=$(date +%s)
    count_cpu
    cpu_before=$cpu
    "$@" >"$log" 2>&1
    status=$?
    last=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
    if [ -n "$last" ]; then
        p=$(echo "$last" | sed 's/ passed.*//')
        f=$(echo "$last" | sed 's/.*passed, \([0-9]*\) failed.*/\1/')
        s=$(echo "$last" | sed -n 's/.*failed, \([0-9]*\) skipped.*/\1/p')
    else
        p=0 f=1 s=0
    fi
    [ $status -ne 0 ] && [ "$f" -eq 0 ] && f=1
    passed=$((passed + p))
    failed=$((failed + f))
    skipped=$((skipped + ${s:-0}))
    count_cpu
    printf '%-58s %6d passed %4d failed %5d skipped %4d s (%d)\n' "$name" "$p" "$f" "${s:-0}" $(($(date +%s) - begin)) \
        $((cpu - cpu_before))
    if [ "$f" -ne 0 ]; then
        echo "    exit status $status; see $log:"
        grep -E 'FAIL|fail|error|Error|:[0-9]+:' "$log" | grep -v '^[0-9]* passed' | head -n 12 | sed 's/^/    /'
    fi
}

finish()
{
    echo "$skipped skipped"
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
    exit
}

if [ -n "${ONLY:-}" ]; then
    "$BUILD/bin/tests" --only "$ONLY"
    exit
fi

step "unit tests" "$BUILD/bin/tests"

# Whether golden_check can run with these options: it then prints what it runs on, before any case. Right or wrong numbers
# are for the steps to find.
offers()
{
    line=$1
    shift
    "$golden" "$@" --only primitives/linear_tiny tests/golden/primitives.h5 2>/dev/null | head -n 1 | grep -q "$line"
}

# A judge that passes everything would be of no use.
wrong_numbers_fail()
{
    "$golden" --tolerance-forward 1e-12 --tolerance-gradient 1e-12 tests/golden/transition.h5 >/dev/null 2>&1 && return 1
    "$golden" tests/golden/missing.h5 >/dev/null 2>&1 && return 1
    "$golden" --only no_such_family tests/golden >/dev/null 2>&1 && return 1
    "$golden" >/dev/null 2>&1
    [ $? -eq 2 ] || return 1
    echo "4 passed, 0 failed"
}
step "golden_check fails where it should" wrong_numbers_fail

# instruction sets this machine has, worst to best
isas=plain
for isa in avx2 avx512; do
    offers "isa $isa," --isa $isa && isas="$isas $isa"
done
bf16_isas=$isas
for isa in avx512_bf16 amx; do
    offers "isa $isa," --isa $isa --dtype bf16 && bf16_isas="$bf16_isas $isa"
done

# every_isa DTYPE ISA...: the last is the best one
every_isa()
{
    dtype=$1
    shift
    while [ $# -gt 0 ]; do
        only="*/*tiny*"
        if [ $# -eq 1 ] || [ -n "${FULL:-}" ]; then
            only="*"
        fi
        step "golden tests/golden $dtype $1" "$golden" --isa "$1" --dtype "$dtype" --threads 2 --only "$only" tests/golden \
            tests/golden_model
        shift
    done
}
# shellcheck disable=SC2086
every_isa f32 $isas
# shellcheck disable=SC2086
every_isa bf16 $bf16_isas
step "golden tests/golden f32 one thread" "$golden" --threads 1 tests/golden
[ -z "${SAN:-}" ] && step "golden tests/golden f32 three threads" "$golden" --threads 3 tests/golden
if offers "backend emulated," --backend emulated; then
    # fibers for threads are slow: whole files in make test-full, here one case of each kernel in one type
    if [ -n "${FULL:-}" ]; then
        for dtype in f32 bf16; do
            step "golden tests/golden emulated $dtype" "$golden" --backend emulated --dtype $dtype --skip-unknown tests/golden
        done
    else
        step "golden emulated f32" "$golden" --backend emulated --skip-unknown --only \
            primitives/layer_norm_tiny,primitives/linear_tiny,primitives/attention_core_tiny,msa_attention/row_tiny,msa_attention/column_global_tiny,transition/pair_tiny,outer_product_mean/msa_tiny,triangle/att_ending_tiny,triangle/mult_incoming_tiny \
            tests/golden
        step "golden emulated bf16" "$golden" --backend emulated --dtype bf16 --skip-unknown --only \
            msa_attention/row_tiny,transition/msa_tiny,outer_product_mean/extra_msa_tiny,triangle/att_starting_tiny,triangle/mult_outgoing_tiny \
            tests/golden
    fi
fi

if [ -d $shared ] && [ -z "${SAN:-}" ]; then
    files=
    for family in primitives msa_attention transition outer_product_mean triangle evoformer_block evoformer_stack \
        embeddings template embeddings_and_evoformer geometry ipa structure_module heads losses whole_model_tiny \
        training_trajectory; do
        files="$files $shared/$family.h5"
    done
    if [ -n "${FULL:-}" ]; then
        for isa in $isas; do
            for threads in 1 2; do
                # shellcheck disable=SC2086
                step "golden shared f32 $isa $threads threads" "$golden" --isa "$isa" --threads $threads $files
            done
        done
        for isa in $bf16_isas; do
            # shellcheck disable=SC2086
            step "golden shared bf16 $isa" "$golden" --isa "$isa" --dtype bf16 --threads 2 $files
        done
    else
        # shellcheck disable=SC2086
        step "golden shared f32" "$golden" --threads 2 $files
        # shellcheck disable=SC2086
        step "golden shared bf16" "$golden" --threads 2 --dtype bf16 $files
    fi
fi

# A reader that crashes, leaks or hangs on a damaged file; make fuzz gives it more of them.
fuzz_briefly()
{
    if [ -x build-san/bin/fuzz_readers ]; then
        build-san/bin/fuzz_readers --count 1500 tests/fuzz
    else
        echo "0 passed, 0 failed, 1 skipped"
    fi
}
step "text readers on damaged files" fuzz_briefly

if [ -d ../shared/data ] && [ -x "$BUILD/bin/fastfold-data" ]; then
    step "sequences, alignments and hits, file by file" sh tests/reader_table.sh "$PWD/$BUILD/bin/fastfold-data" ../shared/data
    step "structure files, as structures.csv has them" sh tests/structure_table.sh "$PWD/$BUILD/bin/fastfold-data" ../shared/data
    step "training sets by command" sh tests/dataset_cli.sh "$PWD/$BUILD/bin/fastfold-data" ../shared/data
fi

if [ -d $shared ] && [ -d ../shared/data ]; then
    step "golden shared, data" "$golden" $shared/data_parsers.h5 $shared/data_raw.h5 $shared/data_transforms.h5 \
        $shared/data_random.h5 $shared/data_labels.h5
fi
if [ -x "$BUILD/bin/fastfold-data" ]; then
    step "fastfold-data features" sh tests/features_command.sh "$BUILD/bin/fastfold-data" \
        $([ -d ../shared/data ] && echo ../shared/data)
fi

if [ -x "$BUILD/bin/fastfold-infer" ]; then
    step "fastfold-infer" sh tests/infer_smoke.sh "$BUILD/bin/fastfold-infer" $([ -d ../shared/data ] && echo ../shared/data)
fi

if [ -x "$BUILD/bin/fastfold-weights" ]; then
    step "fastfold-weights" sh tests/weights_smoke.sh "$BUILD/bin/fastfold-weights"
fi

if [ -x "$BUILD/bin/fastfold-train" ]; then
    step "fastfold-train" sh tests/train_smoke.sh "$BUILD/bin/fastfold-train"
    step "fastfold-train, killed and resumed" sh tests/kill_resume.sh "$BUILD/bin/fastfold-train" $([ -n "${FULL:-}" ] && echo 20 || echo 3)
fi

for dtype in f32 bf16; do
    step "every operation of fastfold-bench, $dtype" sh tests/bench_smoke.sh "$BUILD/bin/fastfold-bench" --dtype $dtype
done
step "every operation of fastfold-bench, inputs kept only" sh tests/bench_smoke.sh "$BUILD/bin/fastfold-bench" \
    --keep inputs --checkpoint

step "fastfold-bench data and train" sh tests/bench_cases.sh "$BUILD/bin/fastfold-bench" \
    $([ -d ../shared/data ] && echo ../shared/data)

if [ -x "$BUILD/bin/mpi_tests" ] && command -v mpirun >/dev/null 2>&1; then
    for n in 1 2 3 4; do
        step "collectives, $n ranks" env OMP_NUM_THREADS=1 timeout 300 mpirun -np $n "$BUILD/bin/mpi_tests"
    done
    for grid in "2 1" "2 2" "4 2"; do
        set -- $grid
        step "data parallel x DAP $1 x $2" env OMP_NUM_THREADS=1 timeout 100 mpirun -np $(($1 * $2)) "$BUILD/bin/mpi_tests" --grid $1
    done
    step "a failing rank ends all, 3 ranks" env OMP_NUM_THREADS=1 timeout 60 mpirun -np 3 "$BUILD/bin/mpi_tests" --fail
fi
# Sent bytes as planned (else it fails), in every schedule and pass, and a trace that is JSON.
dap_bench()
{
    n=$1
    shift
    for pass in inference both; do
        timeout 200 mpirun -np "$n" "$BUILD/bin/fastfold-bench" dap --dap "$n" --num-seq 7 --num-res 11 --blocks 2 --repeat 1 \
            --pass $pass --json --trace "$logs/dap_trace.json" "$@" || return 1
        [ "$(tail -c 4 "$logs/dap_trace.json" | tr -d '\n ')" = "]}" ] || return 1
    done
    echo "2 passed, 0 failed"
}
if command -v mpirun >/dev/null 2>&1 && [ -x "$BUILD/bin/fastfold-bench" ]; then
    step "bytes sent are as planned, 2 ranks" dap_bench 2
    step "bytes sent are as planned, 3 ranks, bf16" dap_bench 3 --dtype bf16 --wire bf16 --checkpoint
    step "golden tests/golden under DAP 2, bf16 on the wire" env OMP_NUM_THREADS=1 timeout 600 mpirun -np 2 "$golden" --threads 1 \
        --dap 2 --dtype bf16 --wire bf16 tests/golden tests/golden_model
fi
if command -v mpirun >/dev/null 2>&1; then
    for n in 2 3; do
        step "golden tests/golden under DAP $n" env OMP_NUM_THREADS=1 timeout 600 mpirun -np $n "$golden" --threads 1 \
            --dap $n tests/golden tests/golden_model
    done
    if [ -d $shared ] && [ -z "${SAN:-}" ]; then # the whole model: every output, loss and gradient
        for n in 2 4; do
            step "golden whole model under DAP $n" env OMP_NUM_THREADS=1 timeout 600 mpirun -np $n "$golden" --threads 1 \
                --dap $n $shared/whole_model_tiny.h5 $shared/training_trajectory.h5
        done
        step "golden whole model under DAP 8" env OMP_NUM_THREADS=1 timeout 600 mpirun -np 8 "$golden" --threads 1 --dap 8 \
            --only whole_model_tiny/loss_recycle0 $shared/whole_model_tiny.h5
    fi
fi
finish
