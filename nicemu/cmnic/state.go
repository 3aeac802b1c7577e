package cmnic

import "fmt"

// State is the state of a connection (IBTA figures 138 to 140).
type State uint8

// The states. TimeWait and Refused end by themselves.
const (
	Idle State = iota // there is no such connection

	REQSent    // active: no answer yet
	REPWait    // active: an MRA has promised one
	REPRcvd    // active: the consumer's turn, to Confirm or Reject
	MRAREPSent // active: as REPRcvd, and the other side is told to wait

	REQRcvd // passive: the consumer's turn, to Accept or Reject
	MRASent // passive: as REQRcvd, and the other side is told to wait
	REPSent // passive: no RTU yet
	RTUWait // passive: an MRA has promised one

	Established
	DREQSent
	DREQRcvd // the consumer's turn, to Disconnect
	TimeWait // packets of the connection may still be under way

	Refused // over for the consumer; repeated messages are refused again

	SIDRREQSent
	SIDRREQRcvd // the consumer's turn, to Answer
	SIDRREPSent // over for the consumer; repeated messages are answered again
)

var stateNames = [...]string{"Idle", "REQ Sent", "REP Wait", "REP Rcvd", "MRA(REP) Sent", "REQ Rcvd", "MRA Sent", "REP Sent", "RTU Wait",
	"Established", "DREQ Sent", "DREQ Rcvd", "TimeWait", "Refused", "SIDR_REQ Sent", "SIDR_REQ Rcvd", "SIDR_REP Sent"}

// String returns the name, mostly as in the specification's figures.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}
