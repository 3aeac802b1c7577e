package wall

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/weftlab/weft/sim/units"
)

// Load is what the engine's thread has done up to some time, in sums that only
// grow. The difference of two is the load of the time between them.
type Load struct {
	At         units.Time // emulated
	Idle       units.Time // in which the thread slept, or polled and found nothing
	Deliveries uint64     // packets handed to real hosts
	Beyond     uint64     // of them later than the limit
	Stood      units.Time // for which the clock stood still (Driver.Stood)
	Absent     units.Time // in which the thread was stopped (Driver.Absent)
	Suspended  units.Time // in which the machine was, beside the time of the wall clock
	Packets    uint64     // that entered the fabric
	Bytes      uint64     // of their frames

	// Late and Demand are no sums. Late is the lateness that one delivery in a
	// hundred had beyond. Demand is what the links of the hosts that send can carry
	// in emulated time; 0 is not known.
	Late   units.Time
	Demand units.Rate
}

// Since gives the load between an earlier time and l.
func (l Load) Since(from Load) Load {
	return Load{
		At: l.At - from.At, Idle: l.Idle - from.Idle, Deliveries: l.Deliveries - from.Deliveries,
		Beyond: l.Beyond - from.Beyond, Stood: l.Stood - from.Stood, Absent: l.Absent - from.Absent, Suspended: l.Suspended - from.Suspended, Packets: l.Packets - from.Packets, Bytes: l.Bytes - from.Bytes,
		Late: l.Late, Demand: l.Demand,
	}
}

// wall is the time of the wall clock over the dilation.
func (l Load) wall() units.Time { return l.At + l.Stood }

// Busy is the share of a load's time in which the thread worked.
func (l Load) Busy() units.Fraction {
	if l.wall() <= 0 {
		return 0
	}
	return units.Fraction(1 - float64(l.Idle)/float64(l.wall()))
}

// Load gives the load up to now, without what enters the fabric. It is called
// on the engine's thread, through Do, or after Run.
func (d *Driver) Load() Load {
	count, beyond := d.lateness.counts()
	return Load{At: d.clock.Now(), Idle: d.idle, Deliveries: count, Beyond: beyond, Stood: d.Stood(), Absent: d.presence.absent, Suspended: d.presence.suspended}
}

const (
	// lateShare is the share of deliveries beyond the limit from which a
	// period counts as late, where the file does not allow more.
	lateShare = 0.01
	// fewDeliveries are too few to say anything.
	fewDeliveries = 100
	// fullShare is the busyness from which the thread is the bottleneck.
	fullShare = 0.85
	// safeShare of what a full thread carries it carries on time: beyond,
	// queues form in front of it.
	safeShare = 0.8
	// calmPeriods on time end an overload.
	calmPeriods = 3
	// repeatPeriods is how often an overload that lasts is told again.
	repeatPeriods = 10
)

// Watch judges the load of one period after the other, and says when the
// machine cannot keep up and when it can again.
type Watch struct {
	Limit   units.Time     // of lateness, emulated
	Allowed units.Fraction // share of deliveries beyond it

	Dilation int // of the clock; 0 is 1

	late, calm  int // periods, of the overload that goes on
	latePeriods int // in all
	periods     int // in which anything was delivered
	worst       Load
	absent      units.Time // in all
	suspended   units.Time // in all
}

// Judge takes the load of one more period; stolen is the share of the
// machine's processor time that the hypervisor gave to others meanwhile. What
// it says is for people, "" when there is nothing to say.
func (w *Watch) Judge(l Load, stolen units.Fraction) string {
	if l.Absent > 0 || l.Suspended > 0 {
		// Whatever was late or stood still in this period, the load is not why.
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

// away says that the engine did not run.
func (w *Watch) away(l Load) string {
	if l.Absent == 0 {
		return fmt.Sprintf("the machine was suspended for %s, and emulated time with it: peers outside may have given up", short(l.Suspended.Duration()))
	}
	said := fmt.Sprintf("the engine did not run for %s of the last %s: its process was stopped (SIGSTOP, Ctrl-Z), or the machine was. What was due meanwhile is late",
		short(l.Absent.Duration()), short(w.real(l.wall())))
	if l.Stood > 0 {
		said += fmt.Sprintf("; emulated time stood still for %s", short(w.real(l.Stood)))
	}
	return said
}

// short prints a time to three digits.
func short(t time.Duration) string {
	if t < time.Minute {
		return fmt.Sprintf("%.3gs", t.Seconds())
	}
	return t.Round(time.Second).String()
}

// isLate notes a late period and gives what is to be said of it, now and then.
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

// worse tells whether a load was later than another.
func (l Load) worse(than Load) bool {
	if l.Stood != than.Stood {
		return l.Stood > than.Stood
	}
	return l.Beyond*than.Deliveries > than.Beyond*l.Deliveries
}

// Late tells whether the machine does not keep up at the moment.
func (w *Watch) Late() bool { return w.late > 0 }

// calmDown notes a period that was on time.
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

// real is how long a span of emulated time takes.
func (w *Watch) real(t units.Time) time.Duration { return t.Duration() * time.Duration(w.dilation()) }

func (w *Watch) dilation() int { return max(w.Dilation, 1) }

// advice says why a period was late and at what rates or dilation it would not be.
// Rates are of real time, because they are what the machine can do.
func (w *Watch) advice(l Load, stolen units.Fraction) string {
	seconds := w.real(l.wall()).Seconds()
	packets, bits := float64(l.Packets)/seconds, float64(l.Bytes)*8/seconds
	now := fmt.Sprintf("%s packets/s (%sbps)", si(packets), si(bits))
	if l.Busy() < fullShare {
		text := fmt.Sprintf("The engine needed only %.0f%% of a core for %s, but did not get it in time: ", 100*float64(l.Busy()), now)
		if stolen > lateShare {
			return text + fmt.Sprintf("the hypervisor gave %.0f%% of the machine's time to others. A lab of this load needs a machine that is not shared, a higher fidelity limit, or slow motion: dilation: %d.", 100*float64(stolen), w.slower(l))
		}
		return text + "the programs in the hosts, or others, hold the cores. Fewer of them, or more cores, would do; spin and realtime in the file's engine section help." +
			fmt.Sprintf(" In slow motion, with dilation: %d, they would matter less.", w.slower(l))
	}
	slow := fmt.Sprintf("run it in slow motion, with dilation: %d or more", 2*w.dilation())
	if l.Demand > 0 {
		need := math.Ceil(float64(l.Demand) / (safeShare * bits))
		slow = fmt.Sprintf("run it in slow motion: with dilation: %d it carries all that the links of the hosts that send let through", upwards(max(need, float64(w.dilation()+1))))
	}
	return fmt.Sprintf("The engine is full at %s. It could carry about %s packets/s (%sbps at this size of packets) on time: lower the rates, send larger packets, give it more --workers, or %s.",
		now, si(safeShare*packets), si(safeShare*bits), slow)
}

// slower is the dilation at which a thread that is full of nothing but waits for
// its core would be on time: lateness is of real time, the limit emulated.
func (w *Watch) slower(l Load) int {
	d := float64(w.dilation())
	if w.Limit <= 0 {
		return upwards(2 * d)
	}
	return upwards(max(2*d, math.Ceil(d*float64(l.Late)/float64(w.Limit))))
}

// upwards rounds up to two digits: more would say more than is known.
func upwards(x float64) int {
	unit := math.Pow(10, max(math.Floor(math.Log10(x))-1, 0))
	return int(math.Ceil(x/unit) * unit)
}

// si prints a number to three digits with a prefix.
func si(x float64) string {
	return units.Brief(x, 3, []units.Prefix{{Name: "T", Per: 1e12}, {Name: "G", Per: 1e9}, {Name: "M", Per: 1e6}, {Name: "k", Per: 1e3}, {Name: "", Per: 1}})
}

// Summary says in a few words how a run kept up, "" when always.
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
