/* domain.c: protection, thread and parent domains. */
#include <stdlib.h>
#include <string.h>

#include "weft.h"

/* A thread domain promises that a single thread uses its objects. Here that saves nothing. */
struct weft_td {
	struct ibv_td td;
	uint32_t users;
};

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct weft_context *c = to_context(context);
	struct weft_handle h = { .handle = c->device.handle };
	struct weft_domain *d = calloc(1, sizeof(*d));
	int error;

	if (!d)
		return weft_fail(ENOMEM);
	error = weft_call(c->session, WEFT_ALLOC_PD, &h, sizeof(h), &h, sizeof(h), NULL, 0);
	if (error) {
		free(d);
		return weft_fail(error);
	}
	d->pd.context = d->made_with = context;
	d->pd.handle = h.handle;
	return &d->pd;
}

static uint32_t users(const uint32_t *n) { return __atomic_load_n(n, __ATOMIC_ACQUIRE); }
static void use(uint32_t *n) { __atomic_fetch_add(n, 1, __ATOMIC_ACQ_REL); }
static void leave(uint32_t *n) { __atomic_fetch_sub(n, 1, __ATOMIC_ACQ_REL); }

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	struct weft_domain *d = to_domain(pd);
	struct weft_session *s = to_context(pd->context)->session;
	int error;

	if (pd->context != d->made_with)
		return weft_error(ENOENT); /* handles are of the context that they were made with */
	if (users(&d->users) && !s->dead)
		return weft_error(EBUSY);
	if (d->of) {
		leave(&d->of->users);
		if (d->td)
			leave(&d->td->users);
		free(d);
		return 0;
	}
	error = weft_call_handle(s, WEFT_DEALLOC_PD, pd->handle);
	if (!error || s->dead)
		free(d);
	return error;
}

struct ibv_td *weft_alloc_td(struct ibv_context *c, struct ibv_td_init_attr *attr)
{
	struct weft_td *t;

	if (attr->comp_mask)
		return weft_fail(EINVAL);
	t = calloc(1, sizeof(*t));
	if (!t)
		return weft_fail(ENOMEM);
	t->td.context = c;
	return &t->td;
}

int weft_dealloc_td(struct ibv_td *td)
{
	struct weft_td *t = (struct weft_td *)td;

	if (users(&t->users))
		return weft_error(EBUSY);
	free(t);
	return 0;
}

#define PARENT_ATTRS (IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)

struct ibv_pd *weft_alloc_parent_domain(struct ibv_context *c, struct ibv_parent_domain_init_attr *attr)
{
	struct weft_domain *d;

	if (attr->comp_mask & ~(uint32_t)PARENT_ATTRS || !attr->pd || to_domain(attr->pd)->of)
		return weft_fail(EINVAL);
	d = calloc(1, sizeof(*d));
	if (!d)
		return weft_fail(ENOMEM);
	d->pd.context = d->made_with = c;
	d->pd.handle = attr->pd->handle;
	d->of = to_domain(attr->pd);
	d->td = (struct weft_td *)attr->td;
	use(&d->of->users);
	if (d->td)
		use(&d->td->users);
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		d->alloc = attr->alloc;
		d->free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		d->context = attr->pd_context;
	return &d->pd;
}

void weft_enter_domain(struct ibv_pd *pd)
{
	if (pd && to_domain(pd)->of)
		use(&to_domain(pd)->users);
}

void weft_leave_domain(struct ibv_pd *pd)
{
	if (pd && to_domain(pd)->of)
		leave(&to_domain(pd)->users);
}

/* Types of resources are driver-specific; this driver has only one. */
#define WORK_REQUESTS 0

uint64_t *weft_table_of(struct ibv_pd *pd, uint32_t n, bool *theirs)
{
	struct weft_domain *d = to_domain(pd);
	size_t size = (size_t)n * sizeof(uint64_t);
	void *p = IBV_ALLOCATOR_USE_DEFAULT;

	if (d->alloc)
		p = d->alloc(pd, d->context, size, sizeof(uint64_t), WORK_REQUESTS);
	*theirs = p != IBV_ALLOCATOR_USE_DEFAULT;
	if (!*theirs)
		return calloc(n, sizeof(uint64_t));
	if (!p)
		return weft_fail(ENOMEM);
	return memset(p, 0, size);
}

void weft_free_table(struct ibv_pd *pd, uint64_t *table, bool theirs)
{
	struct weft_domain *d = to_domain(pd);

	if (!theirs)
		free(table);
	else if (table && d->free)
		d->free(pd, d->context, table, WORK_REQUESTS);
}
