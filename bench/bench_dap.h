/* bench_dap.h - fastfold-bench dap: what the exchanges of Evoformer blocks cost, and how much of that other work hides. */
#ifndef FF_BENCH_BENCH_DAP_H
#define FF_BENCH_BENCH_DAP_H

/** The program behind `fastfold-bench dap`, started as so many processes; argv[0] stands for the command. @return exit status */
int bench_dap(int argc, char **argv);

#endif
