#!/bin/sh
# bench_smoke.sh BENCH [OPTIONS...]: runs every operation of fastfold-bench in every pass at small odd sizes, and checks what
# it says: a time, the FLOP of the cost formulas within 2 % of what the operations record, and the peak that plan mode
# predicts within 5 % of the measured one. Last line: `N passed, N failed`.
set -u
bench=$1
shift
operations=$("$bench" list | sed -n 's/^  \([a-z0-9_]*\) .*/\1/p')
# shellcheck disable=SC2086
"$bench" $operations --num-seq 5 --num-res 11 --num-extra 7 --num-templ 2 --blocks 2 --repeat 1 --quick --json "$@" |
    sed 's/[{}",]//g' | awk -v expected="$(echo "$operations" | wc -w)" '
    {
        delete v
        for (i = 1; i < NF; i++)
            if ($i ~ /:$/)
                v[substr($i, 1, length($i) - 1)] = $(i + 1)
        seen[v["op"]] = 1
        reason = ""
        if (!(v["seconds_median"] > 0) || !(v["seconds_min"] <= v["seconds_median"]))
            reason = "no time"
        if (!(v["peak_bytes"] > 0) || !(v["minimal_bytes"] > 0))
            reason = "no bytes"
        if (v["predicted_peak_bytes"] > 0) {
            r = v["predicted_peak_bytes"] / v["peak_bytes"]
            if (r < 0.95 || r > 1.05)
                reason = "predicted peak " v["predicted_peak_bytes"] ", measured " v["peak_bytes"]
            r = v["predicted_flop"] / v["flop"]
            again = v["keep"] == "inputs" || v["checkpoint"] == "true" # then backward passes compute forward again
            if (r < 0.98 || (r > 1.02 && !again))
                reason = "recorded FLOP " v["predicted_flop"] ", by formula " v["flop"]
        }
        if (reason == "")
            passed++
        else {
            failed++
            print "FAIL " v["op"] ", " v["pass"] ": " reason
        }
    }
    END {
        for (op in seen)
            operations++
        if (operations != expected) {
            failed++
            print "FAIL: " operations + 0 " of " expected " operations ran"
        }
        printf "%d passed, %d failed\n", passed, failed
        exit failed > 0
    }'
