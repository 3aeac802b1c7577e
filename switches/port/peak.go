package port

import "github.com/weftlab/weft/emu/units"

// TakeMaxQueue gives the longest that the queue has been since the last call,
// or since the start, and begins anew with what waits now. Counters are not
// touched by it. There is one caller: the series of the run.
func (p *Port) TakeMaxQueue(now units.Time) units.Bytes {
	p.settle(now)
	longest := p.counters.MaxQueue
	p.longest = max(p.longest, longest)
	p.counters.MaxQueue = p.bytes
	return longest
}
