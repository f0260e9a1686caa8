# FastFold in C. Targets: all test test-full test-long fuzz bench demo install clean format info deps cuda; make help lists them.
#
#   make                  the library and the programs, in build/
#   make test ONLY=NAME   one CUnit suite (or a prefix of it)
#   SAN=1                 AddressSanitizer and UBSan (build-san/)      WERROR=1   warnings are errors
#   make fuzz COUNT=N     N damaged copies of each file in tests/fuzz for each text reader, sanitized
#   CUDA=0                no nvcc                                      V=1        show commands
#
# A new source file needs no entry: folders are read by wildcard. kernels/cpu/*.c are compiled once per variant.

CUDA ?= 1
CC := gcc
CXX := g++
PREFIX ?= /usr/local
BUILD := build$(if $(filter 1,$(SAN)),-san)
Q := $(if $(filter 1,$(V)),,@)
MAKEFLAGS += --no-print-directory

ifeq ($(filter clean deps format help,$(MAKECMDGOALS)),)
-include $(BUILD)/config.mk
$(BUILD)/config.mk: scripts/probe.sh
	$(Q)CC=$(CC) CXX=$(CXX) CUDA=$(CUDA) sh scripts/probe.sh $@
endif

# ---- flags ----
comma := ,
WARN := -Wall -Wextra -Wshadow $(if $(filter 1,$(WERROR)),-Werror)
CWARN := $(WARN) -Wstrict-prototypes -Wmissing-prototypes
OPT := -O3 -g -fopenmp -ffp-contract=fast -fno-math-errno -fno-trapping-math
SANFLAGS := $(if $(filter 1,$(SAN)),-fsanitize=address$(comma)undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
EMULATE ?= $(HAVE_CXX)
DEFS := -D_GNU_SOURCE -I. \
  $(if $(filter 1,$(HAVE_DNNL)),-DFF_HAVE_DNNL $(DNNL_CFLAGS)) \
  $(if $(filter 1,$(HAVE_HDF5)),-DFF_HAVE_HDF5 $(HDF5_CFLAGS)) \
  $(if $(filter 1,$(HAVE_MPI)),-DFF_HAVE_MPI $(MPI_CFLAGS)) \
  $(if $(filter 1,$(HAVE_ZLIB)),-DFF_HAVE_ZLIB $(ZLIB_CFLAGS)) \
  $(if $(filter 1,$(HAVE_ZIP)),-DFF_HAVE_ZIP $(ZIP_CFLAGS)) \
  $(if $(filter 1,$(HAVE_CJSON)),-DFF_HAVE_CJSON $(CJSON_CFLAGS)) \
  $(if $(filter 1,$(HAVE_GEMMI)),-DFF_HAVE_GEMMI) \
  $(if $(filter 1,$(EMULATE)),-DFF_HAVE_EMULATED)
CFLAGS_ALL = -std=c11 $(OPT) $(CWARN) $(SANFLAGS) $(DEFS) $(CFLAGS)
CXXFLAGS_ALL = -std=c++17 -O2 -g $(WARN) $(SANFLAGS) -I. $(CXXFLAGS)
EMUFLAGS = -DFF_EMULATE -Wno-unknown-pragmas
LIBS = -fopenmp $(if $(filter 1,$(HAVE_DNNL)),$(DNNL_LIBS)) $(if $(filter 1,$(HAVE_HDF5)),$(HDF5_LIBS)) \
  $(if $(filter 1,$(HAVE_MPI)),$(MPI_LIBS)) $(if $(filter 1,$(HAVE_ZIP)),$(ZIP_LIBS)) $(if $(filter 1,$(HAVE_CJSON)),$(CJSON_LIBS)) $(if $(filter 1,$(HAVE_ZLIB)),$(ZLIB_LIBS)) \
  $(if $(filter 1,$(HAVE_CXX)),-lstdc++) -lm -lpthread $(LDFLAGS)

# ---- the library ----
FOLDERS := core io kernels tensor dap evoformer structure model data train infer
SOURCES := $(filter-out $(wildcard */main_*.c),$(foreach f,$(FOLDERS),$(wildcard $(f)/*.c)))
OBJECTS := $(SOURCES:%.c=$(BUILD)/obj/%.o)
# C++ behind C headers (gemmi)
ifeq ($(HAVE_GEMMI),1)
OBJECTS += $(patsubst %.cpp,$(BUILD)/obj/%.o,$(wildcard io/*.cpp data/*.cpp infer/*.cpp))
endif

# kernels/cpu: NAME.ISA.TYPE.o
ARCH := $(shell uname -m)
VARIANTS := plain.f32 plain.bf16
ifeq ($(ARCH),x86_64)
VARIANTS += avx2.f32 avx2.bf16 avx512.f32 avx512.bf16 avx512_bf16.bf16 amx.bf16
endif
AVX512 := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512
FLAGS_plain := -DFF_ISA_PLAIN=1
FLAGS_avx2 := -DFF_ISA_AVX2=1 -mavx2 -mfma
FLAGS_avx512 := -DFF_ISA_AVX512=1 $(AVX512)
FLAGS_avx512_bf16 := -DFF_ISA_AVX512_BF16=1 $(AVX512) -mavx512bf16
FLAGS_amx := -DFF_ISA_AMX=1 $(AVX512) -mavx512bf16 -mamx-tile -mamx-bf16
KERNELS := $(notdir $(basename $(wildcard kernels/cpu/*.c)))
KERNEL_OBJECTS := $(foreach v,$(VARIANTS),$(KERNELS:%=$(BUILD)/obj/kernels/cpu/%.$(v).o))

# the CUDA sources, run on the CPU
CUDA_SOURCES := $(wildcard kernels/*.cu)
EMULATED_OBJECTS := $(if $(filter 1,$(EMULATE)),$(patsubst %.cu,$(BUILD)/obj/%.emu.o,$(CUDA_SOURCES)) \
  $(patsubst %.cpp,$(BUILD)/obj/%.o,$(wildcard kernels/*.cpp kernels/emulate/*.cpp)))
# and compiled for the GPU: -gencode for each architecture
CUBINS := $(if $(FOUND_NVCC),$(CUDA_SOURCES:%.cu=$(BUILD)/cuda/%.o))

LIBRARY := $(BUILD)/libfastfold.a

# ---- programs ----
BENCH := $(if $(wildcard bench/main_bench.c),$(BUILD)/bin/fastfold-bench)
GOLDEN := $(if $(filter 1,$(HAVE_HDF5)),$(BUILD)/bin/golden_check)
TESTS := $(if $(filter 1,$(HAVE_CUNIT)),$(BUILD)/bin/tests)
MPI_TESTS := $(if $(filter 1,$(HAVE_MPI)),$(if $(wildcard tests/main_mpi_tests.c),$(BUILD)/bin/mpi_tests))
# fastfold-NAME from FOLDER/main_NAME.c
MAINS := $(foreach f,data model train infer,$(wildcard $(f)/main_*.c))
PROGRAMS := $(BENCH) $(GOLDEN) $(foreach m,$(MAINS),$(BUILD)/bin/fastfold-$(patsubst main_%,%,$(basename $(notdir $(m)))))

.PHONY: all programs test test-full test-long fuzz bench demo install clean format info deps cuda help require
.DEFAULT_GOAL := all
.SECONDARY:

all: programs $(CUBINS)
programs: $(PROGRAMS)
cuda: $(CUBINS)
	@$(if $(FOUND_NVCC),,echo "cuda: nvcc was not found; nothing to do")

$(LIBRARY): $(OBJECTS) $(KERNEL_OBJECTS) $(EMULATED_OBJECTS)
	@echo "  AR    $@"
	$(Q)rm -f $@ && ar rcs $@ $^

$(BUILD)/obj/%.o: %.c $(BUILD)/config.mk Makefile
	@mkdir -p $(@D); echo "  CC    $<"
	$(Q)$(CC) $(CFLAGS_ALL) -MMD -MP -c $< -o $@

define kernel_rule
$(BUILD)/obj/kernels/cpu/%.$(1).o: kernels/cpu/%.c Makefile $(BUILD)/config.mk
	@mkdir -p $$(@D); echo "  CC    $$< ($(1))"
	$(Q)$(CC) $$(CFLAGS_ALL) -DFF_ISA=$(basename $(1)) -DFF_BF16=$(if $(filter %.bf16,$(1)),1,0) $$(FLAGS_$(basename $(1))) -MMD -MP -c $$< -o $$@
endef
$(foreach v,$(VARIANTS),$(eval $(call kernel_rule,$(v))))

# HTML pages as C strings
PAGES := infer/report_page train/training_page
$(BUILD)/%.inc: Makefile
	@mkdir -p $(@D)
	$(Q)sed 's/[\\"?]/\\&/g; s/^/"/; s/$$/\\n"/' $(filter %.html,$^) >$@
define page_rule
$(BUILD)/$(notdir $(1)).inc: $(1).html
$(BUILD)/obj/$(1).o: $(BUILD)/$(notdir $(1)).inc
$(BUILD)/obj/$(1).o: CFLAGS += -I$(BUILD)
endef
$(foreach p,$(PAGES),$(eval $(call page_rule,$(p))))

$(BUILD)/obj/%.emu.o: %.cu $(BUILD)/config.mk Makefile
	@mkdir -p $(@D); echo "  EMU   $<"
	$(Q)$(CXX) $(CXXFLAGS_ALL) $(EMUFLAGS) -x c++ -MMD -MP -c $< -o $@

$(BUILD)/obj/kernels/%.o: CXXFLAGS += $(EMUFLAGS)
$(BUILD)/obj/%.o: %.cpp $(BUILD)/config.mk Makefile
	@mkdir -p $(@D); echo "  CXX   $<"
	$(Q)$(CXX) $(CXXFLAGS_ALL) -MMD -MP -c $< -o $@

$(BUILD)/cuda/%.o: %.cu $(wildcard kernels/*.cuh kernels/*.h) Makefile
	@mkdir -p $(@D); echo "  NVCC  $< (sm_80, sm_90)"
	$(Q)$(FOUND_NVCC) -O2 -std=c++17 -I. -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 -c $< -o $@

define program_rule
$(BUILD)/bin/fastfold-$(patsubst main_%,%,$(basename $(notdir $(1)))): $(1:%.c=$(BUILD)/obj/%.o) $(LIBRARY)
	@mkdir -p $$(@D); echo "  LD    $$@"
	$$(Q)$$(CC) $$(SANFLAGS) -o $$@ $$^ $$(LIBS)
endef
$(foreach m,$(MAINS),$(eval $(call program_rule,$(m))))

$(BUILD)/bin/fastfold-bench: $(BUILD)/obj/bench/main_bench.o $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out bench/main_%,$(wildcard bench/*.c))) $(LIBRARY)
	@mkdir -p $(@D); echo "  LD    $@"
	$(Q)$(CC) $(SANFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/bin/golden_check: $(patsubst %.c,$(BUILD)/obj/%.o,tests/main_golden_check.c $(wildcard tests/golden_*.c)) $(LIBRARY)
	@mkdir -p $(@D); echo "  LD    $@"
	$(Q)$(CC) $(SANFLAGS) -o $@ $^ $(LIBS)

# one CUnit program: every `CU_SuiteInfo suite_NAME` of tests/test_*.c
TEST_SOURCES := $(wildcard tests/test_*.c)
$(BUILD)/suites.inc: $(TEST_SOURCES)
	@mkdir -p $(@D)
	$(Q)sed -n 's/^CU_SuiteInfo \(suite_[a-z0-9_]*\) *=.*/SUITE(\1)/p' $(TEST_SOURCES) | LC_ALL=C sort >$@
$(BUILD)/obj/tests/main_tests.o: $(BUILD)/suites.inc
$(BUILD)/obj/tests/main_tests.o: CFLAGS += -I$(BUILD)
# mm.c once more with the AMX instructions in software, so that its tiles are tested on machines without them
ifeq ($(ARCH),x86_64)
AMX_SOFTWARE := $(BUILD)/obj/tests/mm.amx_software.bf16.o
$(AMX_SOFTWARE): kernels/cpu/mm.c Makefile $(BUILD)/config.mk
	@mkdir -p $(@D); echo "  CC    $< (amx in software)"
	$(Q)$(CC) $(CFLAGS_ALL) -DFF_ISA=amx_software -DFF_BF16=1 -DFF_ISA_AMX=1 $(AVX512) -include tests/amx_software.h -MMD -MP -c $< -o $@
endif
TEST_OBJECTS := $(patsubst %.c,$(BUILD)/obj/%.o,tests/main_tests.c $(TEST_SOURCES) $(wildcard tests/golden_*.c) \
  $(filter-out bench/main_%,$(wildcard bench/*.c))) $(AMX_SOFTWARE) \
  $(if $(filter 1,$(EMULATE)),$(patsubst %.cu,$(BUILD)/obj/%.emu.o,$(wildcard tests/*.cu)))
$(BUILD)/bin/tests: $(TEST_OBJECTS) $(LIBRARY)
	@mkdir -p $(@D); echo "  LD    $@"
	$(Q)$(CC) $(SANFLAGS) -o $@ $^ $(CUNIT_LIBS) $(LIBS)

$(BUILD)/bin/mpi_tests: $(patsubst %.c,$(BUILD)/obj/%.o,tests/main_mpi_tests.c $(wildcard tests/mpi_*.c)) $(LIBRARY)
	@mkdir -p $(@D); echo "  LD    $@"
	$(Q)$(CC) $(SANFLAGS) -o $@ $^ $(LIBS)

# every text reader on damaged files; make fuzz builds it with the sanitizers
FUZZ_SOURCES := tests/fuzz_readers.c $(wildcard core/*.c io/*.c) structure/residue_constants.c \
  $(addprefix data/,fasta.c msa.c a3m.c stockholm.c stockholm_tools.c hits.c hhr.c hmmsearch.c obsolete.c pdb_write.c) \
  $(wildcard data/structure_file*.c)
FUZZ_OBJECTS := $(FUZZ_SOURCES:%.c=$(BUILD)/obj/%.o) \
  $(if $(filter 1,$(HAVE_GEMMI)),$(patsubst %.cpp,$(BUILD)/obj/%.o,$(wildcard io/*.cpp data/*.cpp)))
$(BUILD)/bin/fuzz_readers: $(FUZZ_OBJECTS)
	@mkdir -p $(@D); echo "  LD    $@"
	$(Q)$(CC) $(SANFLAGS) -o $@ $^ $(LIBS)

# ---- what people call ----
deps:
	@sh scripts/deps.sh

# On a bare machine, install what is missing first.
require:
	@if [ -n "$(strip $(MISSING))" ]; then echo "missing: $(MISSING); calling make deps"; sh scripts/deps.sh && rm -f build*/config.mk; fi

test test-full test-long: require
	@$(MAKE) run-$@

.PHONY: run-test run-test-full run-test-long build-fuzz
run-test: programs $(TESTS) $(MPI_TESTS) $(CUBINS) $(if $(ONLY),,build-fuzz)
	@BUILD=$(BUILD) SAN=$(SAN) ONLY=$(ONLY) sh tests/run_tests.sh
run-test-full: programs $(TESTS) $(MPI_TESTS) $(CUBINS) build-fuzz
	@BUILD=$(BUILD) SAN=$(SAN) FULL=1 sh tests/run_tests.sh

# what takes minutes each: the job scripts on a private Slurm
run-test-long: programs
	@bash tests/slurm_jobs.sh $(CURDIR)/$(BUILD)/bin ../shared

build-fuzz:
	@$(MAKE) SAN=1 build-san/bin/fuzz_readers || echo "no sanitized fuzz_readers: its step is skipped"

COUNT ?= 20000
fuzz:
	@$(MAKE) SAN=1 build-san/bin/fuzz_readers
	@build-san/bin/fuzz_readers --count $(COUNT) tests/fuzz

bench: programs
	@$(BUILD)/bin/fastfold-bench

demo: require
	@$(MAKE) programs
	@sh scripts/demo.sh $(BUILD)

install: programs
	@mkdir -p $(DESTDIR)$(PREFIX)/bin
	install -m 755 $(PROGRAMS) $(DESTDIR)$(PREFIX)/bin

clean:
	rm -rf build build-san

format:
	@git ls-files '*.c' '*.h' '*.cu' '*.cuh' '*.cpp' | xargs clang-format -i

info:
	@echo "compiler      $$($(CC) --version | head -n 1)"
	@echo "oneDNN        $(if $(filter 1,$(HAVE_DNNL)),yes,no: our own products everywhere)"
	@echo "HDF5          $(if $(filter 1,$(HAVE_HDF5)),yes,no: no golden_check)"
	@echo "MPI           $(if $(filter 1,$(HAVE_MPI)),yes,no: one process only)"
	@echo "CUnit         $(if $(filter 1,$(HAVE_CUNIT)),yes,no: no unit tests)"
	@echo "g++           $(if $(filter 1,$(HAVE_CXX)),yes,no: no emulated backend)"
	@echo "nvcc          $(if $(FOUND_NVCC),$(FOUND_NVCC),no: the CUDA sources run emulated only)"
	@echo "missing       $(if $(strip $(MISSING)),$(MISSING) (make deps),nothing)"
	@echo "processor     $$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
	@echo "variants      $(VARIANTS)"

help:
	@sed -n '1,10p' Makefile | sed 's/^# \{0,1\}//'

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
