package uverbs

// The structs here are those of nicemu/verbs/abi.h, which explains them. They have no padding, so
// encoding/binary and C see the same bytes.

const (
	abiVersion    = 5
	maxMessage    = 4096
	maxDevices    = 16
	pageSize      = 4096
	maxQueues     = 65536
	privateLen    = 256
	headLen       = 8 // of a request and of an answer
	sendLen       = 64
	sgeLen        = 16
	recvLen       = 16
	cqeLen        = 64
	armAny        = 1
	armSolicited  = 2
	dirtyOffset   = pageSize
	doorbellBytes = pageSize + maxQueues/8
	anyOffset     = 64
	anyWords      = maxQueues / 64 / 64
)

// Offsets in the first page of a queue.
const (
	sendIndex  = 0
	recvIndex  = 64
	cqMade     = 0
	cqSolicit  = 4
	cqTold     = 8
	cqEpoch    = 16
	cqTaken    = 64
	cqArm      = 128
	cqEvent    = 192
	queueBytes = pageSize // then slots
)

type op uint32

const (
	opHello op = 1 + iota
	opDevices
	opOpen
	opClose
	opQueryPort
	opQueryGID
	opAllocPD
	opDeallocPD
	opRegMR
	opReregMR
	opDeregMR
	opAllocMW
	opDeallocMW
	opCreateChannel
	opDestroyChannel
	opCreateCQ
	opResizeCQ
	opModifyCQ
	opDestroyCQ
	opCreateSRQ
	opModifySRQ
	opQuerySRQ
	opDestroySRQ
	opCreateQP
	opModifyQP
	opQueryQP
	opDestroyQP
	opCreateAH
	opDestroyAH
	opAttachMcast
	opDetachMcast
	opQueryClock
	opNotifyCQ
	opLocate
	opSetRateLimit
	opOpenXRCD
	opCloseXRCD
	opOpenQP
)

const (
	opCMCreateChannel op = 64 + iota
	opCMDestroyChannel
	opCMCreateID
	opCMDestroyID
	opCMMigrate
	opCMBind
	opCMResolveAddr
	opCMResolveRoute
	opCMListen
	opCMConnect
	opCMAccept
	opCMReject
	opCMEstablish
	opCMDisconnect
	opCMNotify
	opCMGetEvent
	opCMQPAttr
	opCMSetOption
	opCMJoin
	opCMLeave
)

type none struct{}

type handleMsg struct{ Handle, Reserved uint32 }

type helloMsg struct{ Version, Reserved uint32 }

type deviceMsg struct {
	Name, Netdev [16]byte
	GUID         uint64
}

type devicesAnswer struct {
	Count, Reserved uint32
	Devices         [maxDevices]deviceMsg
}

type deviceAnswer struct {
	Handle, MaxInline                                           uint32
	GUID, MaxMRSize                                             uint64
	MaxMR, MaxMW, MaxPD, MaxCQ, MaxCQE                          uint32
	MaxQP, MaxQPWR, MaxSGE                                      uint32
	MaxQPRdAtom, MaxQPInitRdAtom, Atomics                       uint32
	MaxSRQ, MaxSRQWR, MaxSRQSGE, SRQResize                      uint32
	MaxAH, MaxMcastGrp, MaxMcastQPAttach, MaxTotalMcastQPAttach uint32
	MaxPKeys, Ports, GIDs, AckDelay                             uint32
	RateLimitMin, RateLimitMax, RateLimitTypes                  uint32
	XRC, Reserved                                               uint32
}

type portAnswer struct {
	Rate                           uint64
	ActiveMTU, GIDs                uint32
	QKeyViolations, PKeyViolations uint32
	Active, Reserved               uint32
}

type clockAnswer struct{ Time uint64 }

type queryGID struct{ Context, Index uint32 }

type gidAnswer struct{ GID [16]byte }

type regMR struct {
	PD, Access         uint32
	Addr, Length, IOVA uint64
	MR, Flags          uint32
}

type mrAnswer struct{ Handle, Key uint32 }

type locateMsg struct {
	PD, LKey      uint32
	VA            uint64
	Length, Write uint32
}

type locateAnswer struct{ Addr uint64 }

type allocMW struct{ PD, Type uint32 }

type createCQ struct{ Context, CQE, Channel, CQ, Epoch, Reserved uint32 }

type cqAnswer struct{ Handle, CQE, Slots, Reserved uint32 }

type modifyCQ struct{ CQ, Count, Period, Reserved uint32 }

type createSRQ struct{ PD, MaxWR, MaxSGE, XRCD, CQ, Reserved uint32 }

type srqAnswer struct{ Handle, Number, MaxWR, MaxSGE, Slots, Stride, SRQNum, Reserved uint32 }

type openXRCDMsg struct {
	Context  uint32
	FD       int32
	Flags    uint32
	Reserved uint32
}

type openQPMsg struct{ XRCD, QPNum, Type, Reserved uint32 }

type modifySRQ struct{ SRQ, Mask, MaxWR, Limit uint32 }

type srqAttr struct{ MaxWR, MaxSGE, Limit, Reserved uint32 }

type createQP struct {
	PD, SendCQ, RecvCQ, SRQ                                 uint32
	Type, SignalAll                                         uint32
	MaxSendWR, MaxRecvWR, MaxSendSGE, MaxRecvSGE, MaxInline uint32
	BlockSelfMcast, XRCD                                    uint32
	Reserved                                                uint32
}

type qpAnswer struct {
	Handle, QPNum, Number                                   uint32
	MaxSendWR, MaxRecvWR, MaxSendSGE, MaxRecvSGE, MaxInline uint32
	SendSlots, SendStride, RecvSlots, RecvStride            uint32
}

type ahAttr struct {
	DGID                                  [16]byte
	FlowLabel                             uint32
	SGIDIndex, HopLimit, TrafficClass, SL uint8
	StaticRate, IsGlobal, Port, Reserved  uint8
	Reserved2                             uint32
}

type qpAttr struct {
	QP, Mask                                                   uint32
	State, CurState, PathMTU, MigState                         uint32
	QKey, RQPSN, SQPSN, DestQPN, Access                        uint32
	PKeyIndex                                                  uint32
	AH                                                         ahAttr
	EnSQDAsyncNotify, SQDraining, MaxRdAtomic, MaxDestRdAtomic uint8
	MinRNRTimer, Port, Timeout, RetryCnt, RNRRetry             uint8
	Reserved                                                   [7]uint8
}

type rateLimitMsg struct{ QP, Rate, MaxBurst, TypicalPacket uint32 }

type createAH struct {
	PD, Reserved uint32
	AH           ahAttr
}

type mcastMsg struct {
	QP, Reserved uint32
	GID          [16]byte
}

type cmCreateID struct{ Channel, PortSpace, ID, Type uint32 }

type endpoint struct {
	IP       [16]byte
	Port     uint16
	Family   uint16
	Reserved uint32
}

type cmAddress struct {
	ID, Device    uint32
	Local, Remote endpoint
}

type cmResolve struct {
	ID, Timeout   uint32
	Local, Remote endpoint
}

type cmListen struct{ ID, Backlog uint32 }

type cmParam struct {
	QPNum, QKey                                                 uint32
	ResponderResources, InitiatorDepth, FlowControl, RetryCount uint8
	RNRRetryCount, SRQ, PrivateDataLen, Reserved                uint8
	PrivateData                                                 [privateLen]byte
}

type cmConnect struct {
	ID, Status uint32
	Param      cmParam
}

type cmEvent struct {
	ID, Listen, Event uint32
	Status            int32
	Type, Reserved    uint32
	Address           cmAddress
	AH                ahAttr
	Param             cmParam
}

type cmQPAttr struct{ ID, State uint32 }

const (
	optionTOS uint32 = 1 + iota
	optionReuse
	optionV6Only
	optionAckTimeout
)

type cmOption struct{ ID, Option, Value, Reserved uint32 }

type cmJoin struct {
	ID, Group uint32
	Address   endpoint
}
