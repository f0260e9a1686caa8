/* report_page.h - the page of the report, with `@DATA@` where its JSON document goes. */
#ifndef FF_INFER_REPORT_PAGE_H
#define FF_INFER_REPORT_PAGE_H

extern const char ff_report_page[];

#endif
