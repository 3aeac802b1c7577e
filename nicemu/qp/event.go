package qp

import "fmt"

// Event is an asynchronous event (§11.6.3; ibv_get_async_event(3)). The values
// are those of ibv_event_type.
type Event uint8

// The events.
const (
	CQErr Event = iota
	QPFatal
	QPReqErr
	QPAccessErr
	CommEst
	SQDrained
	PathMig
	PathMigErr
	DeviceFatal
	PortActive
	PortErr
	LIDChange
	PKeyChange
	SMChange
	SRQErr
	SRQLimitReached
	QPLastWQEReached
	ClientReregister
	GIDChange
)

var eventNames = [...]string{
	"CQ_ERR", "QP_FATAL", "QP_REQ_ERR", "QP_ACCESS_ERR", "COMM_EST", "SQ_DRAINED", "PATH_MIG", "PATH_MIG_ERR",
	"DEVICE_FATAL", "PORT_ACTIVE", "PORT_ERR", "LID_CHANGE", "PKEY_CHANGE", "SM_CHANGE", "SRQ_ERR",
	"SRQ_LIMIT_REACHED", "QP_LAST_WQE_REACHED", "CLIENT_REREGISTER", "GID_CHANGE",
}

// String returns the name in ibv_event_type.
func (e Event) String() string {
	if int(e) >= len(eventNames) {
		return fmt.Sprintf("Event(%d)", uint8(e))
	}
	return "IBV_EVENT_" + eventNames[e]
}
