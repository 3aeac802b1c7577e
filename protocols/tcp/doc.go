// Package tcp implements TCP without a socket, a clock or a payload: a Sender, which sends
// an amount of data and then closes, and a Receiver, which receives it and closes as well.
// Both are pure state machines. Their inputs are the time and segments; their outputs are
// segments and the time of their next timer.
//
// A connection begins with the handshake and ends with a FIN of each side (RFC 9293). Data
// flows in one direction. Implemented are
//
//   - window scaling and timestamps (RFC 7323), the maximum segment size;
//   - selective acknowledgements (RFC 2018), including duplicates (RFC 2883);
//   - time-based loss detection, RACK, and tail loss probes, TLP (RFC 8985), with the
//     adaptive reordering window;
//   - proportional rate reduction (RFC 9937, which replaces RFC 6937) towards the window
//     of the rate control, after losses and after marks;
//   - the retransmission timeout (RFC 6298), with a minimum and backoff;
//   - delayed acknowledgements (RFC 1122 §4.2.3.2), except for the first ones; those of
//     segments out of order wait for others, as in Linux;
//   - explicit congestion notification, classic (RFC 3168) or as in DCTCP (RFC 8257);
//   - detection of spurious recoveries by timestamps (RFC 4015) and by duplicates that the
//     receiver reports (RFC 3708); a control that is a cc.Undoer reverts them.
//
// The rate control is a cc.Control: it sets the congestion window, and the rate if it
// paces.
//
// Where the RFCs leave a choice, this package follows Linux, against which the model is
// checked: the timeout is SRTT plus at least MinRTO, and the first acknowledgements are
// not delayed. Urgent data, Nagle's algorithm and zero-window probes are not implemented
// and not needed here: all data is available from the beginning, and the receiver reads
// what it can. The receiver's window does not grow automatically; F-RTO (RFC 5682) and
// AccECN (RFC 9768) are not implemented.
package tcp
