# site.sh - what differs from site to site; every job script reads it. Copy it, change it, and name the copy in
# FASTFOLD_SITE, or edit it here.
#
# sbatch options that every job gets are given on the command line (account, partition):
#     sbatch --account=bio --partition=gpu jobs/infer.sbatch targets.fasta out

# Where the programs are; empty = PATH.
FASTFOLD_BIN=${FASTFOLD_BIN:-}
# Lines a batch shell needs before the programs run: modules, paths.
# module load openmpi hdf5

# Weights for inference, and their preset (empty = what the file fits).
FASTFOLD_WEIGHTS=${FASTFOLD_WEIGHTS:-}
FASTFOLD_PRESET=${FASTFOLD_PRESET:-}
# More options of fastfold-infer for all inference jobs.
FASTFOLD_INFER_OPTIONS=${FASTFOLD_INFER_OPTIONS:-}
# Options of fastfold-data features: databases, programs, cache.
FASTFOLD_SEARCH_OPTIONS=${FASTFOLD_SEARCH_OPTIONS:-}

# How ranks are started in a job of several tasks: "mpirun" or "srun --mpi=pmix".
FASTFOLD_LAUNCH=${FASTFOLD_LAUNCH:-mpirun}
