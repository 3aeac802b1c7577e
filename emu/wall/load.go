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
	Stood      units.Time // how long the clock stood still (Driver.StoodStill)
	Absent     units.Time // how long the thread was stopped (Driver.AbsentTime)
	Suspended  units.Time // how long the machine was suspended; not in At or Stood
	Packets    uint64     // packets that entered the fabric
	Bytes      uint64     // bytes of their frames
	Copies     uint64     // that switches made of broadcast and multicast packets

	// Late and Demand are not sums. Late is the lateness that one delivery in a
	// hundred exceeded. Demand is what the links of the hosts that send can carry
	// in emulated time; 0 means unknown.
	Late   units.Time
	Demand units.Rate
}

// LoadSince returns the load between an earlier time and l.
func (l Load) LoadSince(from Load) Load {
	return Load{
		At: l.At - from.At, Idle: l.Idle - from.Idle, Deliveries: l.Deliveries - from.Deliveries,
		Beyond: l.Beyond - from.Beyond, Stood: l.Stood - from.Stood, Absent: l.Absent - from.Absent, Suspended: l.Suspended - from.Suspended, Packets: l.Packets - from.Packets, Bytes: l.Bytes - from.Bytes, Copies: l.Copies - from.Copies,
		Late: l.Late, Demand: l.Demand,
	}
}

// wallTime returns the time of the wall clock divided by the dilation.
func (l Load) wallTime() units.Time { return l.At + l.Stood }

// BusyShare returns the share of a load's time in which the thread worked.
func (l Load) BusyShare() units.Fraction {
	if l.wallTime() <= 0 {
		return 0
	}
	return units.Fraction(1 - float64(l.Idle)/float64(l.wallTime()))
}

// Load returns the load up to now, without what enters the fabric. It must be
// called on the engine's thread, through Do, or after Run.
func (d *Driver) Load() Load {
	count, beyond := d.lateness.countDeliveries()
	return Load{At: d.clock.Now(), Idle: d.idle, Deliveries: count, Beyond: beyond, Stood: d.StoodStill(), Absent: d.presence.absent, Suspended: d.presence.suspended}
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
	// onTimePeriods is how many periods on time end an overload.
	onTimePeriods = 3
	// repeatPeriods is how often an overload that lasts is reported again.
	repeatPeriods = 10
)

// Watch evaluates the load of successive periods, and reports when the machine
// cannot keep up and when it can again.
type Watch struct {
	Limit   units.Time     // of lateness, emulated
	Allowed units.Fraction // share of deliveries beyond it

	Dilation int // of the clock; 0 means 1

	late, onTime int // periods of the current overload
	latePeriods  int // in total
	periods      int // in which there were deliveries
	worst        Load
	took         Taken      // during the worst
	absent       units.Time // in total
	suspended    units.Time // in total
}

// Taken is what others took of the processors during a period.
type Taken struct {
	Stolen    units.Fraction // of the machine's processor time, by the hypervisor for others
	Throttled units.Fraction // of the period, in which a limit on processor time held the engine back
}

// JudgeLoad evaluates the load of another period, and what was taken during it. It returns a message
// for the user, or "" if there is nothing to say.
func (w *Watch) JudgeLoad(l Load, t Taken) string {
	if l.Absent > 0 || l.Suspended > 0 {
		// The load is not the reason why anything was late or stood still in this
		// period.
		w.absent += l.Absent
		w.suspended += l.Suspended
		return w.absenceMessage(l)
	}
	if l.Stood > 0 {
		w.periods++
		return w.isLate(l, t, fmt.Sprintf("the machine does not keep up: emulated time stood still for %s of the last %s. %s",
			w.realTime(l.Stood).Round(time.Millisecond), w.realTime(l.wallTime()).Round(time.Millisecond), w.adviceFor(l, t)))
	}
	if l.Deliveries < fewDeliveries {
		return w.countOnTime()
	}
	w.periods++
	share := units.Fraction(float64(l.Beyond) / float64(l.Deliveries))
	if share <= max(w.Allowed, lateShare) {
		return w.countOnTime()
	}
	return w.isLate(l, t, fmt.Sprintf("the machine does not keep up: %s of %d deliveries in the last %ss were later than %v. %s",
		units.FormatPercent(float64(share), 3), l.Deliveries, units.FormatDigits(w.realTime(l.wallTime()).Seconds(), 2), w.Limit, w.adviceFor(l, t)))
}

// absenceMessage returns the message that the engine did not run.
func (w *Watch) absenceMessage(l Load) string {
	if l.Absent == 0 {
		return fmt.Sprintf("the machine was suspended for %s, and emulated time with it: peers outside may have given up", formatShort(l.Suspended.Duration()))
	}
	message := fmt.Sprintf("the engine did not run for %s of the last %s: its process was stopped (SIGSTOP, Ctrl-Z), or the machine was. Packets due meanwhile are late",
		formatShort(l.Absent.Duration()), formatShort(w.realTime(l.wallTime())))
	if l.Stood > 0 {
		message += fmt.Sprintf("; emulated time stood still for %s", formatShort(w.realTime(l.Stood)))
	}
	return message
}

// formatShort formats a time with three digits.
func formatShort(t time.Duration) string {
	if t < time.Minute {
		return fmt.Sprintf("%.3gs", t.Seconds())
	}
	return t.Round(time.Second).String()
}

// isLate records a late period and returns its message only now and then.
func (w *Watch) isLate(l Load, t Taken, message string) string {
	w.latePeriods++
	w.late++
	w.onTime = 0
	if w.latePeriods == 1 || l.isWorse(w.worst) {
		w.worst, w.took = l, t
	}
	if w.late%repeatPeriods != 1 {
		return ""
	}
	return message
}

// isWorse reports whether a load was later than another.
func (l Load) isWorse(than Load) bool {
	if l.Stood != than.Stood {
		return l.Stood > than.Stood
	}
	return l.Beyond*than.Deliveries > than.Beyond*l.Deliveries
}

// IsLate reports whether the machine currently does not keep up.
func (w *Watch) IsLate() bool { return w.late > 0 }

// countOnTime records a period that was on time.
func (w *Watch) countOnTime() string {
	if w.late == 0 {
		return ""
	}
	if w.onTime++; w.onTime < onTimePeriods {
		return ""
	}
	w.late, w.onTime = 0, 0
	return "the machine keeps up again"
}

// realTime returns how long a span of emulated time takes.
func (w *Watch) realTime(t units.Time) time.Duration {
	return t.Duration() * time.Duration(w.currentDilation())
}

func (w *Watch) currentDilation() int { return max(w.Dilation, 1) }

// adviceFor says why a period was late and at what rates or dilation it would not be.
// Rates are in real time, because they depend on what the machine can do.
func (w *Watch) adviceFor(l Load, t Taken) string {
	seconds := w.realTime(l.wallTime()).Seconds()
	packets, bits := float64(l.Packets)/seconds, float64(l.Bytes)*8/seconds
	if l.Copies > l.Packets {
		// What entered says nothing about how much the engine can carry.
		return fmt.Sprintf("It handled %s packets/s and %s copies/s that switches made of them: a broadcast or multicast goes to every host of its network. Let the hosts send fewer, make networks smaller with routers (address: auto of switches), or run the lab in slow motion (dilation).",
			formatSI(packets), formatSI(float64(l.Copies)/seconds))
	}
	now := fmt.Sprintf("%s packets/s (%sbps)", formatSI(packets), formatSI(bits))
	if t.Throttled > lateShare {
		return fmt.Sprintf("A limit on processor time held the engine back for %.0f%% of it, at %s: raise the limit of the control group that weft runs in (docker run --cpus, CPUQuota= of systemd), or run it in slow motion, with dilation: %d.",
			100*float64(t.Throttled), now, w.slowerDilation(l))
	}
	if l.BusyShare() < fullShare {
		text := fmt.Sprintf("The engine needed only %.0f%% of a core for %s, but did not get it in time: ", 100*float64(l.BusyShare()), now)
		if t.Stolen > lateShare {
			return text + fmt.Sprintf("the hypervisor gave %.0f%% of the machine's time to others. A lab of this load needs a machine that is not shared, a higher fidelity limit, or slow motion: dilation: %d.", 100*float64(t.Stolen), w.slowerDilation(l))
		}
		return text + "programs in the hosts, or others, use the cores. Use fewer of them, or more cores; spin and realtime in the file's engine section help." +
			fmt.Sprintf(" In slow motion, with dilation: %d, they would matter less.", w.slowerDilation(l))
	}
	slow := fmt.Sprintf("run it in slow motion, with dilation: %d or more", roundUp(2*float64(w.currentDilation())))
	if l.Demand > 0 {
		need := max(math.Ceil(float64(l.Demand)/(safeShare*bits)), float64(w.currentDilation()+1))
		slow = fmt.Sprintf("run it in slow motion: with dilation: %d it carries the full rate of the links of the sending hosts", roundUp(need))
		if need > MaxDilation {
			slow = fmt.Sprintf("run it in slow motion, although the largest dilation, %d, does not suffice for the full rate of the links of the sending hosts", MaxDilation)
		}
	}
	return fmt.Sprintf("The engine is full at %s. It could carry about %s packets/s (%sbps at this packet size) on time: lower the rates, send larger packets, give it more --workers, or %s.",
		now, formatSI(safeShare*packets), formatSI(safeShare*bits), slow)
}

// slowerDilation returns the dilation at which a thread that is not full, but waits for its
// core, would be on time: lateness is in real time, the limit in emulated time.
func (w *Watch) slowerDilation(l Load) int {
	d := float64(w.currentDilation())
	if w.Limit <= 0 {
		return roundUp(2 * d)
	}
	return roundUp(max(2*d, math.Ceil(d*float64(l.Late)/float64(w.Limit))))
}

// roundUp rounds a dilation up to two digits, as the estimate is no more precise, and to MaxDilation
// at most.
func roundUp(x float64) int {
	unit := math.Pow(10, max(math.Floor(math.Log10(x))-1, 0))
	return int(min(math.Ceil(x/unit)*unit, MaxDilation))
}

// formatSI formats a number with three digits and a prefix.
func formatSI(x float64) string {
	return units.FormatBrief(x, 3, []units.Prefix{{Name: "T", Per: 1e12}, {Name: "G", Per: 1e9}, {Name: "M", Per: 1e6}, {Name: "k", Per: 1e3}, {Name: "", Per: 1}})
}

// Summary says briefly how well a run kept up, or "" if it always did.
func (w *Watch) Summary() string {
	var parts []string
	if w.absent > 0 {
		parts = append(parts, fmt.Sprintf("the engine did not run for %s: its process was stopped, or the machine was", formatShort(w.absent.Duration())))
	}
	if w.suspended > 0 {
		parts = append(parts, fmt.Sprintf("the machine was suspended for %s", formatShort(w.suspended.Duration())))
	}
	if w.latePeriods > 0 {
		parts = append(parts, fmt.Sprintf("late in %d of %d seconds with traffic; in the worst of them: %s", w.latePeriods, w.periods, w.adviceFor(w.worst, w.took)))
	}
	return strings.Join(parts, "; ")
}
