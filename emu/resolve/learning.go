package resolve

import (
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/mactable"
)

// minAge is the shortest time that a switch remembers an address.
const minAge = units.Millisecond

// learning resolves how switches learn Ethernet addresses. It is known by now which of them
// are routers, which learn none.
func learning(v *base, kind *labfile.Learning) {
	for i := range v.plan.Nodes {
		n, file := &v.plan.Nodes[i], v.nodeFileOf(i)
		if n.Kind != plan.Switch {
			continue
		}
		if n.Router != nil {
			if file.Learning != nil {
				v.ReportFault(file.Learning, "leave it out", "learning of %s has no effect: it is a router, which knows addresses from the lab file", n.Name)
			}
			continue
		}
		f := file.Learning.MergeKind(v.Reader, kind)
		if f != nil && f.Off {
			continue
		}
		c := mactable.Default()
		if f != nil {
			setFrom(&c.Age, f.Age)
			setFrom((*labfile.TableSize)(&c.Size), f.Size)
		}
		n.Learning = &c
		if c.Age < minAge || c.Age > maxTime {
			v.ReportFault(f.Age, "", "age %v is outside %v to %v", c.Age, minAge, maxTime)
		}
	}
}
