// Package tcp is TCP without a socket, a clock or a payload: a Sender, which has an amount
// of data for a receiver and then closes, and a Receiver, which takes it and closes as
// well. Both are pure state machines. They are given the time and segments, and answer
// segments and when they want to be woken.
//
// A connection begins with the handshake and ends with a FIN of each side (RFC 9293). Data
// goes one way. Implemented are
//
//   - window scaling and timestamps (RFC 7323), the maximum segment size;
//   - selective acknowledgements (RFC 2018), of duplicates too (RFC 2883);
//   - loss detection by time, RACK, and probes for the tail, TLP (RFC 8985), with the
//     reordering window that adapts;
//   - proportional rate reduction (RFC 9937, which replaces RFC 6937) towards the window
//     that the rate control answers, after losses and after marks;
//   - the retransmission timeout (RFC 6298), with a least value and backoff;
//   - delayed acknowledgements (RFC 1122 §4.2.3.2), and none delayed at first; those of
//     segments out of order wait for others, as in Linux;
//   - explicit congestion notification, classic (RFC 3168) or as DCTCP has it (RFC 8257);
//   - spurious recoveries, by timestamps (RFC 4015) and by duplicates that the receiver
//     tells of (RFC 3708), which a control that is a cc.Undoer takes back.
//
// The rate control is a cc.Control: it sets the congestion window, and the rate where it
// paces.
//
// Where the RFCs leave a choice, it is Linux's, since that is what the model is held
// against: the timeout is SRTT plus at least MinRTO, and the first acknowledgements are
// not delayed. Not implemented are urgent data, Nagle's algorithm and zero-window probes,
// for which there is no need here: all data is there from the beginning, and the receiver
// reads what it can. Its window does not grow by itself; F-RTO (RFC 5682) and AccECN
// (RFC 9768) are missing.
package tcp
