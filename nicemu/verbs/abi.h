/*
 * abi.h: the protocol between the library and the lab. Package uverbs has the same
 * in Go; a test there keeps the two in agreement. Numbers are in native byte order.
 * Every struct is laid out without compiler padding.
 *
 * Control is a SOCK_SEQPACKET socket: each request is one packet, a struct
 * weft_request and the body of its operation; each answer is one packet, a struct
 * weft_answer and a body, with descriptors where stated. The body of an error is a
 * text. Requests of a process are answered in order.
 */
#ifndef WEFT_ABI_H
#define WEFT_ABI_H

#include <stdint.h>

#define WEFT_ABI_VERSION 5
#define WEFT_MAX_MESSAGE 4096

enum weft_op {
	WEFT_HELLO = 1,       /* hello -> hello_answer; fds: doorbell page, eventfd */
	WEFT_DEVICES,         /* -> devices_answer */
	WEFT_OPEN,            /* handle = number of the device -> device_answer; fd: asynchronous events */
	WEFT_CLOSE,           /* handle */
	WEFT_QUERY_PORT,      /* handle of the context -> port_answer */
	WEFT_QUERY_GID,       /* query_gid -> gid_answer */
	WEFT_ALLOC_PD,        /* handle of the context -> handle */
	WEFT_DEALLOC_PD,      /* handle */
	WEFT_REG_MR,          /* reg_mr -> mr_answer */
	WEFT_REREG_MR,        /* reg_mr -> mr_answer */
	WEFT_DEREG_MR,        /* handle */
	WEFT_ALLOC_MW,        /* alloc_mw -> mr_answer */
	WEFT_DEALLOC_MW,      /* handle */
	WEFT_CREATE_CHANNEL,  /* handle of the context -> handle; fd */
	WEFT_DESTROY_CHANNEL, /* handle */
	WEFT_CREATE_CQ,       /* create_cq -> cq_answer; fd: the queue */
	WEFT_RESIZE_CQ,       /* create_cq, cq and cqe -> cq_answer; fd: the queue */
	WEFT_MODIFY_CQ,       /* modify_cq */
	WEFT_DESTROY_CQ,      /* handle */
	WEFT_CREATE_SRQ,      /* create_srq -> srq_answer; fd: the queue */
	WEFT_MODIFY_SRQ,      /* modify_srq */
	WEFT_QUERY_SRQ,       /* handle -> srq_attr */
	WEFT_DESTROY_SRQ,     /* handle */
	WEFT_CREATE_QP,       /* create_qp -> qp_answer; fd: the queues, but for IBV_QPT_XRC_RECV, which has none */
	WEFT_MODIFY_QP,       /* modify_qp -> handle = the state */
	WEFT_QUERY_QP,        /* handle -> qp_attr */
	WEFT_DESTROY_QP,      /* handle */
	WEFT_CREATE_AH,       /* create_ah -> handle */
	WEFT_DESTROY_AH,      /* handle */
	WEFT_ATTACH_MCAST,    /* mcast */
	WEFT_DETACH_MCAST,    /* mcast */
	WEFT_QUERY_CLOCK,     /* handle of the context -> clock_answer */
	WEFT_NOTIFY_CQ,       /* handle: entries wait that no event has reported */
	WEFT_LOCATE,          /* locate -> locate_answer */
	WEFT_SET_RATE_LIMIT,  /* rate_limit */
	WEFT_OPEN_XRCD,       /* open_xrcd -> handle */
	WEFT_CLOSE_XRCD,      /* handle */
	WEFT_OPEN_QP,         /* open_qp -> qp_answer */

	WEFT_CM_CREATE_CHANNEL = 64, /* -> handle; fd */
	WEFT_CM_DESTROY_CHANNEL,     /* handle */
	WEFT_CM_CREATE_ID,           /* cm_create_id -> handle */
	WEFT_CM_DESTROY_ID,          /* handle */
	WEFT_CM_MIGRATE,             /* cm_create_id, id and channel */
	WEFT_CM_BIND,                /* cm_address -> cm_address */
	WEFT_CM_RESOLVE_ADDR,        /* cm_resolve -> cm_address */
	WEFT_CM_RESOLVE_ROUTE,       /* handle */
	WEFT_CM_LISTEN,              /* cm_listen -> cm_address */
	WEFT_CM_CONNECT,             /* cm_connect */
	WEFT_CM_ACCEPT,              /* cm_connect */
	WEFT_CM_REJECT,              /* cm_connect */
	WEFT_CM_ESTABLISH,           /* handle */
	WEFT_CM_DISCONNECT,          /* handle */
	WEFT_CM_NOTIFY,              /* handle */
	WEFT_CM_GET_EVENT,           /* handle of the channel -> cm_event */
	WEFT_CM_QP_ATTR,             /* cm_qp_attr -> qp_attr */
	WEFT_CM_SET_OPTION,          /* cm_option */
	WEFT_CM_JOIN,                /* cm_join -> handle */
	WEFT_CM_LEAVE,               /* cm_join -> */
};

struct weft_request {
	uint32_t op;
	uint32_t reserved;
};

struct weft_answer {
	int32_t error; /* errno, or 0 */
	uint32_t reserved;
};

struct weft_handle {
	uint32_t handle;
	uint32_t reserved;
};

struct weft_hello {
	uint32_t version;
	uint32_t reserved;
};

#define WEFT_MAX_DEVICES 16

struct weft_device {
	char name[16];  /* "roce0" */
	char netdev[16]; /* "eth0" */
	uint64_t guid;
};

struct weft_devices_answer {
	uint32_t count;
	uint32_t reserved;
	struct weft_device devices[WEFT_MAX_DEVICES];
};

/* Limits of a device, with the names of struct ibv_device_attr. */
struct weft_device_answer {
	uint32_t handle;
	uint32_t max_inline;
	uint64_t guid;
	uint64_t max_mr_size;
	uint32_t max_mr, max_mw, max_pd, max_cq, max_cqe;
	uint32_t max_qp, max_qp_wr, max_sge;
	uint32_t max_qp_rd_atom, max_qp_init_rd_atom, atomics;
	uint32_t max_srq, max_srq_wr, max_srq_sge, srq_resize;
	uint32_t max_ah, max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach;
	uint32_t max_pkeys, ports, gids, ack_delay;
	uint32_t rate_limit_min, rate_limit_max, rate_limit_types; /* kb/s; bits of enum ibv_qp_type */
	uint32_t xrc; /* 1 if the device has XRC */
	uint32_t reserved;
};

struct weft_port_answer {
	uint64_t rate; /* bits per second; 0 for no limit */
	uint32_t active_mtu;
	uint32_t gids;  /* number of GIDs */
	uint32_t qkey_violations, pkey_violations;
	uint32_t active; /* 0: the link is down */
	uint32_t reserved;
};

struct weft_clock_answer {
	uint64_t time; /* ns of the lab's clock */
};

struct weft_query_gid {
	uint32_t context;
	uint32_t index;
};

struct weft_gid_answer {
	uint8_t gid[16];
};

struct weft_reg_mr {
	uint32_t pd;
	uint32_t access;
	uint64_t addr;
	uint64_t length;
	uint64_t iova;
	uint32_t mr;    /* of REREG */
	uint32_t flags; /* of REREG: ibv_rereg_mr_flags */
};

struct weft_mr_answer {
	uint32_t handle;
	uint32_t key;
};

/* Locates the bytes of an element in the process's memory. */
struct weft_locate {
	uint32_t pd, lkey;
	uint64_t va;
	uint32_t length;
	uint32_t write; /* the bytes will be written */
};

struct weft_locate_answer {
	uint64_t addr;
};

struct weft_alloc_mw {
	uint32_t pd;
	uint32_t type;
};

struct weft_create_cq {
	uint32_t context;
	uint32_t cqe;
	uint32_t channel; /* 0 means none */
	uint32_t cq;      /* of RESIZE */
	uint32_t epoch;   /* 1 for a queue whose epoch is kept up to date */
	uint32_t reserved;
};

struct weft_cq_answer {
	uint32_t handle;
	uint32_t cqe;   /* capacity */
	uint32_t slots; /* of the ring: a power of two */
	uint32_t reserved;
};

struct weft_modify_cq {
	uint32_t cq;
	uint32_t count;
	uint32_t period; /* us */
	uint32_t reserved;
};

struct weft_create_srq {
	uint32_t pd;
	uint32_t max_wr, max_sge;
	uint32_t xrcd, cq; /* of IBV_SRQT_XRC; else 0 */
	uint32_t reserved;
};

struct weft_srq_answer {
	uint32_t handle;
	uint32_t number; /* for the doorbell page */
	uint32_t max_wr, max_sge;
	uint32_t slots, stride;
	uint32_t srq_num; /* of IBV_SRQT_XRC, what senders name; else 0 */
	uint32_t reserved;
};

struct weft_modify_srq {
	uint32_t srq;
	uint32_t mask;
	uint32_t max_wr, limit;
};

struct weft_srq_attr {
	uint32_t max_wr, max_sge, limit, reserved;
};

struct weft_create_qp {
	uint32_t pd, send_cq, recv_cq, srq; /* srq 0 means none */
	uint32_t type;
	uint32_t signal_all;
	uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
	uint32_t block_self_mcast;
	uint32_t xrcd; /* of IBV_QPT_XRC_RECV, which has nothing else; else 0 */
	uint32_t reserved;
};

enum { WEFT_XRCD_CREATE = 1, WEFT_XRCD_EXCLUSIVE = 2 };

struct weft_open_xrcd {
	uint32_t context;
	int32_t fd; /* of the process; -1 for none */
	uint32_t flags; /* WEFT_XRCD_* */
	uint32_t reserved;
};

struct weft_open_qp {
	uint32_t xrcd;
	uint32_t qp_num;
	uint32_t type;
	uint32_t reserved;
};

struct weft_qp_answer {
	uint32_t handle;
	uint32_t qp_num;
	uint32_t number; /* for the doorbell page */
	uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
	uint32_t send_slots, send_stride, recv_slots, recv_stride;
};

struct weft_ah_attr {
	uint8_t dgid[16];
	uint32_t flow_label;
	uint8_t sgid_index, hop_limit, traffic_class, sl;
	uint8_t static_rate, is_global, port_num, reserved;
	uint32_t reserved2;
};

/* The fields of struct ibv_qp_attr, and their mask. */
struct weft_qp_attr {
	uint32_t qp; /* handle */
	uint32_t mask;
	uint32_t state, cur_state, path_mtu, path_mig_state;
	uint32_t qkey, rq_psn, sq_psn, dest_qp_num, access;
	uint32_t pkey_index;
	struct weft_ah_attr ah;
	uint8_t en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic;
	uint8_t min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry, reserved[7];
};

struct weft_rate_limit {
	uint32_t qp;
	uint32_t rate; /* kb/s; 0 means no limit */
	uint32_t max_burst, typical_packet; /* bytes */
};

struct weft_create_ah {
	uint32_t pd;
	uint32_t reserved;
	struct weft_ah_attr ah;
};

struct weft_mcast {
	uint32_t qp;
	uint32_t reserved;
	uint8_t gid[16];
};

struct weft_cm_create_id {
	uint32_t channel;
	uint32_t port_space; /* enum rdma_port_space */
	uint32_t id;         /* of MIGRATE */
	uint32_t type;       /* enum ibv_qp_type; 0 means the port space's */
};

/* An address and port: IPv4 as ::ffff:a.b.c.d. family is AF_INET, AF_INET6 or 0. */
struct weft_endpoint {
	uint8_t ip[16];
	uint16_t port; /* in native byte order */
	uint16_t family;
	uint32_t reserved;
};

struct weft_cm_address {
	uint32_t id;
	uint32_t device; /* device number plus 1; 0 if none is chosen */
	struct weft_endpoint local, remote;
};

struct weft_cm_resolve {
	uint32_t id;
	uint32_t timeout; /* ms */
	struct weft_endpoint local, remote; /* local's family 0: any */
};

struct weft_cm_listen {
	uint32_t id;
	uint32_t backlog;
};

#define WEFT_PRIVATE_DATA 256

struct weft_cm_param {
	uint32_t qp_num;
	uint32_t qkey; /* UD */
	uint8_t responder_resources, initiator_depth, flow_control, retry_count;
	uint8_t rnr_retry_count, srq, private_data_len, reserved;
	uint8_t private_data[WEFT_PRIVATE_DATA];
};

struct weft_cm_connect {
	uint32_t id;
	uint32_t status; /* of ACCEPT, UD */
	struct weft_cm_param param;
};

struct weft_cm_event {
	uint32_t id;     /* of a request to connect: the new ID */
	uint32_t listen; /* of a request to connect: the listening ID; else 0 */
	uint32_t event;  /* enum rdma_cm_event_type */
	int32_t status;
	uint32_t type; /* enum ibv_qp_type of the ID */
	uint32_t reserved;
	struct weft_cm_address address; /* of the new ID */
	struct weft_ah_attr ah;         /* UD */
	struct weft_cm_param param;
};

struct weft_cm_qp_attr {
	uint32_t id;
	uint32_t state;
};

enum { WEFT_CM_TOS = 1, WEFT_CM_REUSE, WEFT_CM_V6ONLY, WEFT_CM_ACK_TIMEOUT };

struct weft_cm_option {
	uint32_t id;
	uint32_t option;
	uint32_t value;
	uint32_t reserved;
};

struct weft_cm_join {
	uint32_t id;
	uint32_t group; /* of LEAVE: the handle */
	struct weft_endpoint address;
};

/*
 * Shared memory. Each queue is a ring in a separate memory object, sealed against a
 * change of size: a page with the indices, which count up for ever and are taken
 * modulo the number of slots, then the slots. The comments below say which side
 * writes an index; the other side only reads it.
 *
 * The doorbell page: a queue pair or shared receive queue has a number. After
 * posting to it, a thread sets the bit of that number in dirty, then the bit of that
 * word in any, and writes to the eventfd if it changed armed from 1 to 0.
 */
#define WEFT_PAGE 4096
#define WEFT_MAX_QUEUES 65536

struct weft_doorbell {
	uint32_t armed;
	uint32_t pad[15];
	uint64_t any[WEFT_MAX_QUEUES / 64 / 64];
	uint64_t pad2[WEFT_PAGE / 8 - 8 - WEFT_MAX_QUEUES / 64 / 64];
	uint64_t dirty[WEFT_MAX_QUEUES / 64];
};

/* The first page of a queue pair; a shared receive queue has only recv. */
struct weft_queue {
	uint32_t send; /* posted; the library's */
	uint32_t pad[15];
	uint32_t recv; /* posted; the library's */
};

/* A slot of a send queue: this, then scatter/gather elements or inline bytes. */
struct weft_send {
	uint32_t opcode; /* enum ibv_wr_opcode */
	uint32_t flags;  /* enum ibv_send_flags */
	uint64_t remote_addr; /* of BIND_MW: where the window begins */
	uint32_t rkey;        /* of BIND_MW: the window's current key */
	uint32_t imm;         /* as a number, or the key to invalidate; of BIND_MW: the new key */
	uint64_t compare_add; /* of BIND_MW: length */
	uint64_t swap;        /* of BIND_MW: access */
	uint32_t ah, remote_qpn, remote_qkey; /* of BIND_MW ah is the region's lkey */
	uint32_t sges;
	uint32_t inlined; /* bytes */
	uint32_t remote_srqn; /* of IBV_QPT_XRC_SEND */
};

struct weft_sge {
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

/* A slot of a receive queue: this, then scatter/gather elements. */
struct weft_recv {
	uint32_t cookie; /* comes back in the completion; in a queue pair's own queue it is the index */
	uint32_t sges;
	uint64_t reserved;
};

/* The first page of a completion queue. */
struct weft_cq {
	uint32_t made;      /* entries; the lab's */
	uint32_t solicited; /* entries up to the last that is solicited or an error; the lab's */
	uint32_t told;      /* entries up to the last that an event has reported; the lab's */
	uint32_t pad0;
	uint64_t epoch; /* CLOCK_REALTIME of programs, in ns, at zero of the lab's clock; the lab's */
	uint32_t pad[10];
	uint32_t taken; /* entries; the library's */
	uint32_t pad2[15];
	uint32_t arm; /* WEFT_ARM_*: set by the library, cleared by the lab */
	uint32_t pad3[15];
	uint32_t event; /* 1 while one waits in the channel: set by the lab, cleared by the library */
	uint32_t pad4;
};

enum { WEFT_ARM_ANY = 1, WEFT_ARM_SOLICITED = 2 };

struct weft_cqe {
	uint64_t id; /* index of the send queue's slot, or the cookie */
	uint32_t status, opcode;
	uint32_t vendor_err, byte_len;
	uint32_t imm; /* as a number */
	uint32_t qp_num, src_qp, flags;
	uint32_t pkey_index, sl;
	uint32_t dropped; /* the library's: the entry's queue pair no longer exists */
	uint32_t srq_num; /* of a message to an XRC_RECV queue pair; else 0 */
	uint64_t time; /* ns of the lab's clock */
};

/* A channel delivers the handle of a completion queue. */
/* The descriptor of asynchronous events delivers: */
struct weft_async {
	uint32_t event;  /* enum ibv_event_type */
	uint32_t handle; /* of the queue pair, completion queue or shared receive queue; the number of the port */
};

#endif
