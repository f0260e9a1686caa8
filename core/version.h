/* version.h - the project's version, printed by --version and written into every file we make. */
#ifndef FF_CORE_VERSION_H
#define FF_CORE_VERSION_H

#define FF_VERSION "0.1.0"

#endif
