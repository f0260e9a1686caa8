/* report_page.c - infer/report_page.html as text; the build makes report_page.inc of it. */
#include "infer/report_page.h"

const char ff_report_page[] =
#include "report_page.inc"
    ;
