package cm

import "fmt"

// Reason says why a REJ refuses (IBTA §12.6.7.2).
type Reason uint16

// The reasons.
const (
	ReasonNoQP                    Reason = 1
	ReasonNoEEC                   Reason = 2
	ReasonNoResources             Reason = 3
	ReasonTimeout                 Reason = 4
	ReasonUnsupported             Reason = 5
	ReasonInvalidCommID           Reason = 6
	ReasonInvalidCommInstance     Reason = 7
	ReasonInvalidServiceID        Reason = 8 // no listener
	ReasonInvalidTransport        Reason = 9
	ReasonStaleConnection         Reason = 10
	ReasonNoRDC                   Reason = 11
	ReasonPrimaryGID              Reason = 12
	ReasonPrimaryLID              Reason = 13
	ReasonPrimarySL               Reason = 14
	ReasonPrimaryTrafficClass     Reason = 15
	ReasonPrimaryHopLimit         Reason = 16
	ReasonPrimaryRate             Reason = 17
	ReasonAlternateGID            Reason = 18
	ReasonAlternateLID            Reason = 19
	ReasonAlternateSL             Reason = 20
	ReasonAlternateTrafficClass   Reason = 21
	ReasonAlternateHopLimit       Reason = 22
	ReasonAlternateRate           Reason = 23
	ReasonPortAndCMRedirect       Reason = 24
	ReasonPortRedirect            Reason = 25
	ReasonInvalidMTU              Reason = 26
	ReasonTooFewResponders        Reason = 27
	ReasonConsumer                Reason = 28 // the program refuses; see the private data
	ReasonRNRRetryCount           Reason = 29
	ReasonDuplicateCommID         Reason = 30
	ReasonInvalidClassVersion     Reason = 31
	ReasonPrimaryFlowLabel        Reason = 32
	ReasonAlternateFlowLabel      Reason = 33
	ReasonVendorOptionUnsupported Reason = 35
)

var reasons = map[Reason]string{
	ReasonNoQP:                    "no QP available",
	ReasonNoEEC:                   "no EEC available",
	ReasonNoResources:             "no resources available",
	ReasonTimeout:                 "timeout",
	ReasonUnsupported:             "unsupported request",
	ReasonInvalidCommID:           "invalid communication ID",
	ReasonInvalidCommInstance:     "invalid communication instance",
	ReasonInvalidServiceID:        "invalid service ID",
	ReasonInvalidTransport:        "invalid transport service type",
	ReasonStaleConnection:         "stale connection",
	ReasonNoRDC:                   "RDC does not exist",
	ReasonPrimaryGID:              "primary remote port GID rejected",
	ReasonPrimaryLID:              "primary remote port LID rejected",
	ReasonPrimarySL:               "invalid primary SL",
	ReasonPrimaryTrafficClass:     "invalid primary traffic class",
	ReasonPrimaryHopLimit:         "invalid primary hop limit",
	ReasonPrimaryRate:             "invalid primary packet rate",
	ReasonAlternateGID:            "alternate remote port GID rejected",
	ReasonAlternateLID:            "alternate remote port LID rejected",
	ReasonAlternateSL:             "invalid alternate SL",
	ReasonAlternateTrafficClass:   "invalid alternate traffic class",
	ReasonAlternateHopLimit:       "invalid alternate hop limit",
	ReasonAlternateRate:           "invalid alternate packet rate",
	ReasonPortAndCMRedirect:       "port and CM redirection",
	ReasonPortRedirect:            "port redirection",
	ReasonInvalidMTU:              "invalid path MTU",
	ReasonTooFewResponders:        "insufficient responder resources",
	ReasonConsumer:                "consumer reject",
	ReasonRNRRetryCount:           "RNR retry count rejected",
	ReasonDuplicateCommID:         "duplicate local communication ID",
	ReasonInvalidClassVersion:     "invalid class version",
	ReasonPrimaryFlowLabel:        "invalid primary flow label",
	ReasonAlternateFlowLabel:      "invalid alternate flow label",
	ReasonVendorOptionUnsupported: "vendor option not supported",
}

// String returns the reason in the words of the specification.
func (r Reason) String() string {
	if s, ok := reasons[r]; ok {
		return s
	}
	return fmt.Sprintf("reason %d", uint16(r))
}
