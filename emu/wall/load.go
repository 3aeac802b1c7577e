package wall

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/weftlab/weft/sim/units"
)

// Load is what the engine's thread has done up to some time, as sums that only
// grow. The difference of two is the load of the time between them.
type Load struct {
	At         units.Time // emulated
	Idle       units.Time // time in which the thread slept, or polled and found nothing
	Deliveries uint64     // packets handed to real hosts
	Beyond     uint64     // deliveries later than the limit
	Stood      units.Time // how long the clock stood still (Driver.Stood)
	Absent     units.Time // how long the thread was stopped (Driver.Absent)
	Suspended  units.Time // how long the machine was suspended; not in At or Stood
	Packets    uint64     // packets that entered the fabric
	Bytes      uint64     // bytes of their frames

	// Late and Demand are not sums. Late is the lateness that one delivery in a
	// hundred exceeded. Demand is what the links of the hosts that send can carry
	// in emulated time; 0 means unknown.
	Late   units.Time
	Demand units.Rate
}

// Since returns the load between an earlier time and l.
func (l Load) Since(from Load) Load {
	return Load{
		At: l.At - from.At, Idle: l.Idle - from.Idle, Deliveries: l.Deliveries - from.Deliveries,
		Beyond: l.Beyond - from.Beyond, Stood: l.Stood - from.Stood, Absent: l.Absent - from.Absent, Suspended: l.Suspended - from.Suspended, Packets: l.Packets - from.Packets, Bytes: l.Bytes - from.Bytes,
		Late: l.Late, Demand: l.Demand,
	}
}

// wall returns the time of the wall clock divided by the dilation.
func (l Load) wall() units.Time { return l.At + l.Stood }

// Busy returns the share of a load's time in which the thread worked.
func (l Load) Busy() units.Fraction {
	if l.wall() <= 0 {
		return 0
	}
	return units.Fraction(1 - float64(l.Idle)/float64(l.wall()))
}

// Load returns the load up to now, without what enters the fabric. It must be
// called on the engine's thread, through Do, or after Run.
func (d *Driver) Load() Load {
	count, beyond := d.lateness.counts()
	return Load{At: d.clock.Now(), Idle: d.idle, Deliveries: count, Beyond: beyond, Stood: d.Stood(), Absent: d.presence.absent, Suspended: d.presence.suspended}
}

const (
	// lateShare is the share of deliveries beyond the limit above which a period
	// counts as late, unless the file allows more.
	lateShare = 0.01
	// fewDeliveries is the number below which deliveries say nothing.
	fewDeliveries = 100
	// fullShare is the busyness from which the thread is the bottleneck.
	fullShare = 0.85
	// safeShare is the share of its full load that a thread carries on time: beyond
	// it, queues form in front of it.
	safeShare = 0.8
	// calmPeriods is how many periods on time end an overload.
	calmPeriods = 3
	// repeatPeriods is how often an overload that lasts is reported again.
	repeatPeriods = 10
)

// Watch evaluates the load of successive periods, and reports when the machine
// cannot keep up and when it can again.
type Watch struct {
	Limit   units.Time     // of lateness, emulated
	Allowed units.Fraction // share of deliveries beyond it

	Dilation int // of the clock; 0 means 1

	late, calm  int // periods of the current overload
	latePeriods int // in total
	periods     int // in which there were deliveries
	worst       Load
	absent      units.Time // in total
	suspended   units.Time // in total
}

// JudgeLoad evaluates the load of another period; stolen is the share of the machine's
// processor time that the hypervisor gave to others during it. It returns a message
// for the user, or "" if there is nothing to say.
func (w *Watch) JudgeLoad(l Load, stolen units.Fraction) string {
	if l.Absent > 0 || l.Suspended > 0 {
		// The load is not the reason why anything was late or stood still in this
		// period.
		w.absent += l.Absent
		w.suspended += l.Suspended
		return w.away(l)
	}
	if l.Stood > 0 {
		w.periods++
		return w.isLate(l, fmt.Sprintf("the machine does not keep up: emulated time stood still for %s of the last %s. %s",
			w.real(l.Stood).Round(time.Millisecond), w.real(l.wall()).Round(time.Millisecond), w.advice(l, stolen)))
	}
	if l.Deliveries < fewDeliveries {
		return w.calmDown()
	}
	w.periods++
	share := units.Fraction(float64(l.Beyond) / float64(l.Deliveries))
	if share <= max(w.Allowed, lateShare) {
		return w.calmDown()
	}
	return w.isLate(l, fmt.Sprintf("the machine does not keep up: %s of %d deliveries in the last %ss were later than %v. %s",
		units.Percent(float64(share), 3), l.Deliveries, units.Digits(w.real(l.wall()).Seconds(), 2), w.Limit, w.advice(l, stolen)))
}

// away returns the message that the engine did not run.
func (w *Watch) away(l Load) string {
	if l.Absent == 0 {
		return fmt.Sprintf("the machine was suspended for %s, and emulated time with it: peers outside may have given up", short(l.Suspended.Duration()))
	}
	said := fmt.Sprintf("the engine did not run for %s of the last %s: its process was stopped (SIGSTOP, Ctrl-Z), or the machine was. Packets due meanwhile are late",
		short(l.Absent.Duration()), short(w.real(l.wall())))
	if l.Stood > 0 {
		said += fmt.Sprintf("; emulated time stood still for %s", short(w.real(l.Stood)))
	}
	return said
}

// short formats a time with three digits.
func short(t time.Duration) string {
	if t < time.Minute {
		return fmt.Sprintf("%.3gs", t.Seconds())
	}
	return t.Round(time.Second).String()
}

// isLate records a late period and returns its message only now and then.
func (w *Watch) isLate(l Load, said string) string {
	w.latePeriods++
	w.late++
	w.calm = 0
	if w.latePeriods == 1 || l.worse(w.worst) {
		w.worst = l
	}
	if w.late%repeatPeriods != 1 {
		return ""
	}
	return said
}

// worse reports whether a load was later than another.
func (l Load) worse(than Load) bool {
	if l.Stood != than.Stood {
		return l.Stood > than.Stood
	}
	return l.Beyond*than.Deliveries > than.Beyond*l.Deliveries
}

// Late reports whether the machine currently does not keep up.
func (w *Watch) Late() bool { return w.late > 0 }

// calmDown records a period that was on time.
func (w *Watch) calmDown() string {
	if w.late == 0 {
		return ""
	}
	if w.calm++; w.calm < calmPeriods {
		return ""
	}
	w.late, w.calm = 0, 0
	return "the machine keeps up again"
}

// real returns how long a span of emulated time takes.
func (w *Watch) real(t units.Time) time.Duration { return t.Duration() * time.Duration(w.dilation()) }

func (w *Watch) dilation() int { return max(w.Dilation, 1) }

// advice says why a period was late and at what rates or dilation it would not be.
// Rates are in real time, because they depend on what the machine can do.
func (w *Watch) advice(l Load, stolen units.Fraction) string {
	seconds := w.real(l.wall()).Seconds()
	packets, bits := float64(l.Packets)/seconds, float64(l.Bytes)*8/seconds
	now := fmt.Sprintf("%s packets/s (%sbps)", si(packets), si(bits))
	if l.Busy() < fullShare {
		text := fmt.Sprintf("The engine needed only %.0f%% of a core for %s, but did not get it in time: ", 100*float64(l.Busy()), now)
		if stolen > lateShare {
			return text + fmt.Sprintf("the hypervisor gave %.0f%% of the machine's time to others. A lab of this load needs a machine that is not shared, a higher fidelity limit, or slow motion: dilation: %d.", 100*float64(stolen), w.slower(l))
		}
		return text + "programs in the hosts, or others, use the cores. Use fewer of them, or more cores; spin and realtime in the file's engine section help." +
			fmt.Sprintf(" In slow motion, with dilation: %d, they would matter less.", w.slower(l))
	}
	slow := fmt.Sprintf("run it in slow motion, with dilation: %d or more", 2*w.dilation())
	if l.Demand > 0 {
		need := math.Ceil(float64(l.Demand) / (safeShare * bits))
		slow = fmt.Sprintf("run it in slow motion: with dilation: %d it carries the full rate of the links of the sending hosts", upwards(max(need, float64(w.dilation()+1))))
	}
	return fmt.Sprintf("The engine is full at %s. It could carry about %s packets/s (%sbps at this packet size) on time: lower the rates, send larger packets, give it more --workers, or %s.",
		now, si(safeShare*packets), si(safeShare*bits), slow)
}

// slower returns the dilation at which a thread that is not full, but waits for its
// core, would be on time: lateness is in real time, the limit in emulated time.
func (w *Watch) slower(l Load) int {
	d := float64(w.dilation())
	if w.Limit <= 0 {
		return upwards(2 * d)
	}
	return upwards(max(2*d, math.Ceil(d*float64(l.Late)/float64(w.Limit))))
}

// upwards rounds up to two digits: the estimate is no more precise.
func upwards(x float64) int {
	unit := math.Pow(10, max(math.Floor(math.Log10(x))-1, 0))
	return int(math.Ceil(x/unit) * unit)
}

// si formats a number with three digits and a prefix.
func si(x float64) string {
	return units.Brief(x, 3, []units.Prefix{{Name: "T", Per: 1e12}, {Name: "G", Per: 1e9}, {Name: "M", Per: 1e6}, {Name: "k", Per: 1e3}, {Name: "", Per: 1}})
}

// Summary says briefly how well a run kept up, or "" if it always did.
func (w *Watch) Summary() string {
	var said []string
	if w.absent > 0 {
		said = append(said, fmt.Sprintf("the engine did not run for %s: its process was stopped, or the machine was", short(w.absent.Duration())))
	}
	if w.suspended > 0 {
		said = append(said, fmt.Sprintf("the machine was suspended for %s", short(w.suspended.Duration())))
	}
	if w.latePeriods > 0 {
		said = append(said, fmt.Sprintf("late in %d of %d seconds with traffic; in the worst of them: %s", w.latePeriods, w.periods, w.advice(w.worst, 0)))
	}
	return strings.Join(said, "; ")
}
