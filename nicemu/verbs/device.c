/* device.c: devices, contexts and their capabilities. */
#define _GNU_SOURCE
#include <endian.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "weft.h"

#undef ibv_query_port

struct device {
	struct ibv_device ibv;
	struct weft_device said;
	uint32_t number;
	int refs; /* from the list and from contexts */
};

static struct device *to_device(struct ibv_device *d) { return (struct device *)d; }

static void release(struct device *d)
{
	if (__atomic_sub_fetch(&d->refs, 1, __ATOMIC_ACQ_REL) == 0)
		free(d);
}

static struct device *new_device(const struct weft_device *said, uint32_t number)
{
	struct device *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->said = *said;
	d->said.name[sizeof(d->said.name) - 1] = 0;
	d->said.netdev[sizeof(d->said.netdev) - 1] = 0;
	d->number = number;
	d->refs = 1;
	d->ibv.node_type = IBV_NODE_CA;
	d->ibv.transport_type = IBV_TRANSPORT_IB;
	snprintf(d->ibv.name, sizeof(d->ibv.name), "%s", d->said.name);
	snprintf(d->ibv.dev_name, sizeof(d->ibv.dev_name), "uverbs%u", number);
	snprintf(d->ibv.dev_path, sizeof(d->ibv.dev_path), "/sys/class/infiniband_verbs/uverbs%u", number);
	snprintf(d->ibv.ibdev_path, sizeof(d->ibv.ibdev_path), "/sys/class/infiniband/%s", d->said.name);
	return d;
}

struct ibv_device **ibv_get_device_list(int *num)
{
	struct weft_devices_answer answer = { 0 };
	struct weft_session *s = weft_session();
	struct ibv_device **list;
	int error;

	if (num)
		*num = 0;
	/* Without a NIC the list is empty, as on a machine without one. */
	if (s) {
		error = weft_call(s, WEFT_DEVICES, NULL, 0, &answer, sizeof(answer), NULL, 0);
		if (error)
			return weft_fail(error);
	} else if (errno != ENOSYS) {
		return NULL;
	}
	list = calloc(answer.count + 1, sizeof(*list));
	if (!list)
		return weft_fail(ENOMEM);
	for (uint32_t i = 0; i < answer.count && i < WEFT_MAX_DEVICES; i++) {
		struct device *d = new_device(&answer.devices[i], i);

		if (!d) {
			ibv_free_device_list(list);
			return weft_fail(ENOMEM);
		}
		list[i] = &d->ibv;
	}
	if (num)
		*num = answer.count;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	for (struct ibv_device **d = list; *d; d++)
		release(to_device(*d));
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *d) { return d->name; }

int ibv_get_device_index(struct ibv_device *d) { return to_device(d)->number; }

__be64 ibv_get_device_guid(struct ibv_device *d) { return htobe64(to_device(d)->said.guid); }

static void init_table(struct weft_table *t) { pthread_mutex_init(&t->mutex, NULL); }

/*
 * The open devices. Programs have pointers to the end of a weft_context only, which checkers of
 * leaks take for lost (valgrind: possibly lost).
 */
static struct weft_context *opened;
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

static void enlist(struct weft_context *c)
{
	pthread_mutex_lock(&opening);
	c->next = opened;
	c->link = &opened;
	if (opened)
		opened->link = &c->next;
	opened = c;
	pthread_mutex_unlock(&opening);
}

static void strike(struct weft_context *c)
{
	pthread_mutex_lock(&opening);
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	pthread_mutex_unlock(&opening);
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct weft_handle number = { .handle = to_device(device)->number };
	struct weft_session *s = weft_session();
	struct weft_context *c;
	int error;

	if (!s)
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return weft_fail(ENOMEM);
	error = weft_call(s, WEFT_OPEN, &number, sizeof(number), &c->device, sizeof(c->device), &c->waiters.fd, 1);
	if (error) {
		free(c);
		return weft_fail(error);
	}
	c->session = s;
	c->number = number.handle;
	pthread_mutex_init(&c->waiters.mutex, NULL);
	init_table(&c->cqs);
	init_table(&c->qps);
	init_table(&c->srqs);
	init_table(&c->numbers);
	init_table(&c->srq_numbers);
	__atomic_add_fetch(&to_device(device)->refs, 1, __ATOMIC_RELAXED);
	c->verbs.sz = sizeof(c->verbs);
	c->verbs.query_port = weft_query_port;
	c->verbs.query_device_ex = weft_query_device_ex;
	c->verbs.modify_cq = weft_modify_cq;
	c->verbs.modify_qp_rate_limit = weft_modify_qp_rate_limit;
	c->verbs.create_qp_ex = weft_create_qp_ex;
	c->verbs.create_cq_ex = weft_create_cq_ex;
	c->verbs.query_rt_values = weft_query_rt_values;
	c->verbs.create_srq_ex = weft_create_srq_ex;
	c->verbs.open_xrcd = weft_open_xrcd;
	c->verbs.close_xrcd = weft_close_xrcd;
	c->verbs.open_qp = weft_open_qp;
	c->verbs.get_srq_num = weft_get_srq_num;
	c->verbs.advise_mr = weft_advise_mr;
	c->verbs.alloc_td = weft_alloc_td;
	c->verbs.dealloc_td = weft_dealloc_td;
	c->verbs.alloc_parent_domain = weft_alloc_parent_domain;
	c->verbs.context.device = device;
	c->verbs.context.ops = (struct ibv_context_ops){
		.alloc_mw = weft_alloc_mw, .bind_mw = weft_bind_mw, .dealloc_mw = weft_dealloc_mw,
		.poll_cq = weft_poll_cq, .req_notify_cq = weft_req_notify_cq, .post_srq_recv = weft_post_srq_recv,
		.post_send = weft_post_send, .post_recv = weft_post_recv,
	};
	c->verbs.context.cmd_fd = s->socket;
	c->verbs.context.async_fd = c->waiters.fd;
	c->verbs.context.num_comp_vectors = 1;
	c->verbs.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	pthread_mutex_init(&c->verbs.context.mutex, NULL);
	enlist(c);
	return &c->verbs.context;
}

int ibv_close_device(struct ibv_context *context)
{
	struct weft_context *c = to_context(context);

	weft_end(&c->waiters);
	weft_call_handle(c->session, WEFT_CLOSE, c->device.handle);
	release(to_device(context->device));
	strike(c);
	if (!weft_release(&c->waiters))
		return 0;
	free(c->cqs.slots);
	free(c->qps.slots);
	free(c->srqs.slots);
	free(c->numbers.slots);
	free(c->srq_numbers.slots);
	free(c);
	return 0;
}

/* The vendor ID of rdma_rxe: programs have no special path for it. */
#define VENDOR_ID 0xffffff

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *a)
{
	const struct weft_device_answer *d = &to_context(context)->device;

	memset(a, 0, sizeof(*a));
	strcpy(a->fw_ver, "weft");
	a->node_guid = a->sys_image_guid = htobe64(d->guid);
	a->max_mr_size = d->max_mr_size;
	a->page_size_cap = 0xfffff000;
	a->vendor_id = VENDOR_ID;
	a->max_qp = d->max_qp;
	a->max_qp_wr = d->max_qp_wr;
	a->device_cap_flags = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR | IBV_DEVICE_CURR_QP_STATE_MOD |
			      IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE * !!d->srq_resize |
			      IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_XRC * !!d->xrc;
	a->max_sge = a->max_sge_rd = d->max_sge;
	a->max_cq = d->max_cq;
	a->max_cqe = d->max_cqe;
	a->max_mr = d->max_mr;
	a->max_pd = d->max_pd;
	a->max_qp_rd_atom = d->max_qp_rd_atom;
	a->max_res_rd_atom = d->max_qp_rd_atom * d->max_qp;
	a->max_qp_init_rd_atom = d->max_qp_init_rd_atom;
	a->atomic_cap = d->atomics ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE;
	a->max_mw = d->max_mw;
	a->max_mcast_grp = d->max_mcast_grp;
	a->max_mcast_qp_attach = d->max_mcast_qp_attach;
	a->max_total_mcast_qp_attach = d->max_total_mcast_qp_attach;
	a->max_ah = d->max_ah;
	a->max_srq = d->max_srq;
	a->max_srq_wr = d->max_srq_wr;
	a->max_srq_sge = d->max_srq_sge;
	a->max_pkeys = d->max_pkeys;
	a->local_ca_ack_delay = d->ack_delay;
	a->phys_port_cnt = d->ports;
	return 0;
}

/* Completions have the lab's time in nanoseconds: the clock's rate in kHz. */
#define CLOCK 1000000

/* The clock is in tv_nsec, where NIC drivers put their cycles, and may exceed a second. */
int weft_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	struct weft_context *c = to_context(context);
	struct weft_handle h = { .handle = c->device.handle };
	struct weft_clock_answer a;
	uint32_t asked = values->comp_mask;
	int error = 0;

	values->comp_mask = 0;
	if (asked & IBV_VALUES_MASK_RAW_CLOCK) {
		error = weft_call(c->session, WEFT_QUERY_CLOCK, &h, sizeof(h), &a, sizeof(a), NULL, 0);
		if (!error) {
			values->raw_clock = (struct timespec){ .tv_nsec = a.time };
			values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
		}
	}
	return error;
}

int weft_query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *in, struct ibv_device_attr_ex *attr, size_t size)
{
	struct ibv_device_attr_ex all = { 0 };
	const struct weft_device_answer *d;

	if (in && in->comp_mask)
		return weft_error(EINVAL);
	if (size < sizeof(attr->orig_attr))
		return weft_error(EOPNOTSUPP);
	ibv_query_device(c, &all.orig_attr);
	all.device_cap_flags_ex = all.orig_attr.device_cap_flags;
	all.phys_port_cnt_ex = all.orig_attr.phys_port_cnt;
	all.completion_timestamp_mask = UINT64_MAX;
	all.hca_core_clock = CLOCK;
	/* All memory behaves as on demand: none is pinned. */
	all.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	all.odp_caps.per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV |
						      IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
	all.odp_caps.per_transport_caps.uc_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE;
	all.odp_caps.per_transport_caps.ud_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
	d = &to_context(c)->device;
	if (d->xrc)
		all.xrc_odp_caps = all.odp_caps.per_transport_caps.rc_odp_caps;
	all.packet_pacing_caps = (struct ibv_packet_pacing_caps){ d->rate_limit_min, d->rate_limit_max, d->rate_limit_types };
	all.cq_mod_caps.max_cq_count = all.cq_mod_caps.max_cq_period = UINT16_MAX;
	memset(attr, 0, size);
	memcpy(attr, &all, size < sizeof(all) ? size : sizeof(all));
	return 0;
}

/* Expresses a rate as a width and a speed (struct ibv_port_attr). */
static void put_rate(struct ibv_port_attr *a, uint64_t rate)
{
	static const struct {
		uint64_t gbps;
		uint8_t width, speed;
	} known[] = { { 400, 2, 128 }, { 200, 2, 64 }, { 100, 2, 32 }, { 50, 1, 64 }, { 40, 2, 4 }, { 25, 1, 32 }, { 10, 1, 4 }, { 5, 1, 2 } };

	a->active_width = 1; /* 1X */
	a->active_speed = 1; /* 2.5 Gb/s */
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		if (rate == 0 || rate >= known[i].gbps * 1000000000) {
			a->active_width = known[i].width;
			a->active_speed = known[i].speed;
			return;
		}
	}
}

/* weft_used_gids returns how many entries of the port's GID table can be other than empty. */
uint32_t weft_used_gids(struct ibv_context *context)
{
	struct weft_context *c = to_context(context);
	struct weft_handle h = { .handle = c->device.handle };
	struct weft_port_answer p;

	return weft_call(c->session, WEFT_QUERY_PORT, &h, sizeof(h), &p, sizeof(p), NULL, 0) ? 0 : p.gids;
}

int weft_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	struct weft_context *c = to_context(context);
	struct weft_handle h = { .handle = c->device.handle };
	struct ibv_port_attr a = { 0 };
	struct weft_port_answer p;
	int error;

	if (port < 1 || port > c->device.ports)
		return weft_error(EINVAL);
	error = weft_call(c->session, WEFT_QUERY_PORT, &h, sizeof(h), &p, sizeof(p), NULL, 0);
	if (error)
		return error;
	a.state = p.active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	a.max_mtu = IBV_MTU_4096;
	a.active_mtu = p.active_mtu;
	a.gid_tbl_len = c->device.gids;
	a.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
	a.max_msg_sz = 1u << 31;
	a.bad_pkey_cntr = p.pkey_violations;
	a.qkey_viol_cntr = p.qkey_violations;
	a.pkey_tbl_len = c->device.max_pkeys;
	a.max_vl_num = 1;
	put_rate(&a, p.rate);
	a.phys_state = p.active ? 5 : 3; /* LinkUp, Disabled: as for other RoCE devices (ib_port_phys_state) */
	a.link_layer = IBV_LINK_LAYER_ETHERNET;
	a.flags = IBV_QPF_GRH_REQUIRED;
	memset(attr, 0, size);
	memcpy(attr, &a, size < sizeof(a) ? size : sizeof(a));
	return 0;
}

/* Programs built before the structure grew get its first part (_compat_ibv_port_attr). */
int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	return weft_query_port(c, port, (struct ibv_port_attr *)attr, offsetof(struct ibv_port_attr, port_cap_flags2));
}

static int query_gid(struct weft_context *c, uint32_t port, uint32_t index, union ibv_gid *gid)
{
	struct weft_query_gid q = { c->device.handle, index };
	struct weft_gid_answer a;
	int error;

	if (port < 1 || port > c->device.ports || index >= c->device.gids)
		return weft_error(EINVAL);
	error = weft_call(c->session, WEFT_QUERY_GID, &q, sizeof(q), &a, sizeof(a), NULL, 0);
	if (!error)
		memcpy(gid->raw, a.gid, sizeof(a.gid));
	return error;
}

int ibv_query_gid(struct ibv_context *c, uint8_t port, int index, union ibv_gid *gid)
{
	return weft_error(index < 0 ? EINVAL : query_gid(to_context(c), port, index, gid)) ? -1 : 0;
}

static bool is_empty(const union ibv_gid *g) { return !g->global.subnet_prefix && !g->global.interface_id; }

int _ibv_query_gid_ex(struct ibv_context *c, uint32_t port, uint32_t index, struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	struct ibv_gid_entry e = { .gid_index = index, .port_num = port, .gid_type = IBV_GID_TYPE_ROCE_V2 };
	int error;

	if (flags)
		return weft_error(EOPNOTSUPP);
	error = query_gid(to_context(c), port, index, &e.gid);
	if (error)
		return error;
	if (is_empty(&e.gid))
		return weft_error(ENODATA);
	e.ndev_ifindex = if_nametoindex(to_device(c->device)->said.netdev);
	memset(entry, 0, size);
	memcpy(entry, &e, size < sizeof(e) ? size : sizeof(e));
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *entries, size_t max, uint32_t flags, size_t size)
{
	uint32_t used = weft_used_gids(c);
	size_t n = 0;

	for (uint32_t i = 0; i < used; i++) {
		struct ibv_gid_entry *e = (struct ibv_gid_entry *)((char *)entries + n * size);
		struct ibv_gid_entry test;
		int error = _ibv_query_gid_ex(c, 1, i, n < max ? e : &test, flags, n < max ? size : sizeof(test));

		if (error == ENODATA)
			continue; /* an address that is gone leaves a gap */
		if (error)
			return -error;
		if (n == max)
			return -weft_error(EINVAL);
		n++;
	}
	return n;
}

/* As in the kernel's sysfs: 0 means RoCE v1 or InfiniBand, 1 means RoCE v2. */
int ibv_query_gid_type(struct ibv_context *c, uint8_t port, unsigned int index, unsigned int *type)
{
	(void)c, (void)port, (void)index;
	*type = 1;
	return 0;
}

int ibv_query_pkey(struct ibv_context *c, uint8_t port, int index, __be16 *pkey)
{
	const struct weft_device_answer *d = &to_context(c)->device;

	if (port < 1 || port > d->ports || index < 0 || index >= (int)d->max_pkeys) {
		errno = EINVAL;
		return -1;
	}
	*pkey = index ? 0 : htobe16(0xffff);
	return 0;
}

int ibv_get_pkey_index(struct ibv_context *c, uint8_t port, __be16 pkey)
{
	(void)c, (void)port;
	if (pkey == htobe16(0xffff))
		return 0;
	errno = EINVAL;
	return -1;
}

/* Emulates the files that programs look for if sysfs does not have a device. */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[1024];
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	f = fopen(path, "re");
	if (!f)
		return -1;
	n = fread(buf, 1, size, f);
	fclose(f);
	if (n > 0 && buf[n - 1] == '\n')
		buf[--n] = 0;
	else if (n < size)
		buf[n] = 0;
	return n;
}

const char *ibv_get_sysfs_path(void) { return "/sys"; }
