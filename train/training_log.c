/* Contents: sums; JSON lines; the live line. */
#include "train/training_log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/clock.h"
#include "infer/json_writer.h"
#include "tensor/pool.h"

enum { LINE_BYTES = 256 };

double ff_training_peak_bytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? 1024.0 * (double)usage.ru_maxrss : 0;
}

/* ---- sums ---- */

static void add_report(ff_training_sums *s, const ff_trainer_report *r)
{
    s->steps++;
    s->skipped += r->skipped;
    s->samples += r->num_samples;
    s->num_recycle += (double)r->num_recycle;
    s->num_res += r->num_res;
    s->wait_s += r->wait_s;
    s->forward_s += r->forward_s;
    s->backward_s += r->backward_s;
    s->update_s += r->update_s;
    s->total_s += r->total_s;
    if (r->skipped)
        return;
    ff_trainer_add_parts(&s->parts, &r->parts, 1);
    s->gradient_norm += r->gradient_norm;
}

/* ---- JSON lines ---- */

static void write_parts(ff_json *j, const ff_loss_parts *p)
{
    const struct {
        const char *key;
        double value;
    } all[] = {{"loss", p->total},
               {"backbone_fape", p->backbone_fape},
               {"backbone_fape_last", p->backbone_fape_last},
               {"sidechain_fape", p->sidechain_fape},
               {"chi", p->torsion.chi},
               {"angle_norm", p->torsion.angle_norm},
               {"violation", p->violation.loss},
               {"violating_residues", p->violation.fraction_any},
               {"distogram", p->distogram},
               {"masked_msa", p->masked_msa},
               {"plddt_loss", p->plddt},
               {"resolved_loss", p->resolved},
               {"pae_loss", p->pae},
               {"lddt_ca", p->lddt_ca}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ff_json_number(j, all[i].key, all[i].value, 9);
}

static void write_line(ff_ctx *ctx, const ff_training_log *log, const ff_trainer *t, const ff_trainer_report *last)
{
    const ff_training_sums *s = &log->sums;
    const double good = s->steps > s->skipped ? (double)(s->steps - s->skipped) : 1, n = (double)s->steps;
    ff_loss_parts mean = {0};
    ff_json j;
    ff_trainer_add_parts(&mean, &s->parts, 1 / good);
    ff_json_begin(&j, log->lines, false);
    ff_json_object_begin(&j, NULL);
    ff_json_text(&j, "kind", "train");
    ff_json_integer(&j, "step", last->step);
    write_parts(&j, &mean);
    ff_json_number(&j, "gradient_norm", s->gradient_norm / good, 9);
    ff_json_number(&j, "learning_rate", last->learning_rate, 9);
    ff_json_number(&j, "recycles", s->num_recycle / n, 3);
    ff_json_integer(&j, "skipped", t->skipped);
    ff_json_integer(&j, "bad_samples", t->bad_samples);
    ff_json_number(&j, "samples_per_s", (double)s->samples / s->total_s, 6);
    ff_json_number(&j, "residues_per_s", s->num_res / s->total_s, 3);
    ff_json_number(&j, "loader_wait", s->wait_s / s->total_s, 6);
    ff_json_number(&j, "forward_ms", 1e3 * s->forward_s / n, 3);
    ff_json_number(&j, "backward_ms", 1e3 * s->backward_s / n, 3);
    ff_json_number(&j, "update_ms", 1e3 * s->update_s / n, 3);
    ff_json_number(&j, "step_ms", 1e3 * s->total_s / n, 3);
    ff_json_number(&j, "activations_mb", (double)ff_pool_get_stats(ctx->pool).peak / 1e6, 3);
    ff_json_number(&j, "memory_mb", ff_training_peak_bytes() / 1e6, 3);
    ff_json_object_end(&j);
    ff_json_end(&j);
    fflush(log->lines);
}

static void write_metrics(ff_json *j, const ff_structure_metrics *m)
{
    ff_json_number(j, "lddt_ca", m->lddt_ca, 6);
    ff_json_number(j, "drmsd_ang", m->drmsd_ang, 6);
    ff_json_number(j, "rmsd_ang", m->rmsd_ang, 6);
    ff_json_number(j, "gdt_ts", m->gdt_ts, 6);
    ff_json_number(j, "gdt_ha", m->gdt_ha, 6);
    ff_json_number(j, "tm_score", m->tm_score, 6);
}

void ff_training_log_validation(ff_training_log *log, int64_t step, const ff_validation *v)
{
    ff_json j;
    log->lddt = v->mean.lddt_ca;
    if (log->lines == NULL)
        return;
    ff_json_begin(&j, log->lines, false);
    ff_json_object_begin(&j, NULL);
    ff_json_text(&j, "kind", "validation");
    ff_json_integer(&j, "step", step);
    ff_json_number(&j, "loss", v->loss, 6);
    write_metrics(&j, &v->mean);
    ff_json_number(&j, "violating_residues", v->fraction_violating, 6);
    ff_json_integer(&j, "failed", v->num_failed);
    ff_json_number(&j, "seconds", v->seconds, 3);
    ff_json_array_begin(&j, "chains");
    for (int64_t i = 0; i < v->num_chains; i++) {
        const ff_validation_chain *c = &v->chains[i];
        ff_json_object_begin(&j, NULL);
        ff_json_text(&j, "name", c->name);
        ff_json_integer(&j, "num_res", c->num_res);
        ff_json_bool(&j, "failed", c->failed);
        write_metrics(&j, &c->metrics);
        ff_json_number(&j, "violating_residues", c->parts.violation.fraction_any, 6);
        ff_json_object_end(&j);
    }
    ff_json_array_end(&j);
    ff_json_object_end(&j);
    ff_json_end(&j);
    fflush(log->lines);
}

/* ---- the live line ---- */

void ff_training_log_begin(ff_training_log *log, FILE *lines, FILE *terminal, int64_t steps, int64_t log_every)
{
    memset(log, 0, sizeof *log);
    log->lines = lines;
    log->terminal = terminal != NULL && isatty(fileno(terminal)) ? terminal : NULL;
    log->steps = steps;
    log->log_every = log_every;
}

int ff_training_log_format(char *text, size_t size, const ff_training_log *log, const ff_trainer_report *r)
{
    const double left = log->rate > 0 ? (double)(log->steps - r->step) / log->rate : 0;
    const long long seconds = (long long)left;
    return snprintf(text, size,
                    "step %lld/%lld loss %.3f (fape %.3f side %.3f chi %.3f dist %.3f msa %.3f viol %.3f) lddt %.3f | %.2f samples/s "
                    "wait %.1f %% %.2f GB | %lld:%02lld:%02lld left",
                    (long long)r->step, (long long)log->steps, r->parts.total, r->parts.backbone_fape, r->parts.sidechain_fape,
                    r->parts.torsion.chi, r->parts.distogram, r->parts.masked_msa, r->parts.violation.loss, r->parts.lddt_ca,
                    log->rate * (double)r->num_samples, r->total_s > 0 ? 100 * r->wait_s / r->total_s : 0,
                    ff_training_peak_bytes() / 1e9, seconds / 3600, seconds / 60 % 60, seconds % 60);
}

static void show(ff_training_log *log, const ff_trainer_report *r)
{
    char text[LINE_BYTES];
    const double now = ff_clock_s();
    if (log->terminal == NULL || (now - log->shown_s < 0.1 && r->step < log->steps))
        return;
    log->shown_s = now;
    ff_training_log_format(text, sizeof text, log, r);
    fprintf(log->terminal, "\r%s\033[K", text);
    fflush(log->terminal);
}

void ff_training_log_clear(ff_training_log *log)
{
    if (log->terminal == NULL || log->shown_s == 0)
        return;
    fputs("\r\033[K", log->terminal);
    fflush(log->terminal);
}

void ff_training_log_step(ff_ctx *ctx, ff_training_log *log, const ff_trainer *t, const ff_trainer_report *report)
{
    const double rate = 1 / (report->total_s > 1e-9 ? report->total_s : 1e-9);
    log->rate = log->rate == 0 ? rate : 1 / (0.95 / log->rate + 0.05 / rate);
    add_report(&log->sums, report);
    show(log, report);
    if (log->sums.steps < log->log_every && report->step % log->log_every != 0 && report->step < log->steps)
        return;
    if (log->lines != NULL)
        write_line(ctx, log, t, report);
    memset(&log->sums, 0, sizeof log->sums);
}
