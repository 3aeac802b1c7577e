package labfile

import (
	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/yamlfile"
)

// Generate is a generated topology: one of the fields is set.
type Generate struct {
	yamlfile.OneKey `yaml:",inline"`
	Star            *Star       `yaml:"star,omitempty" jsonschema_description:"hosts around one switch, s1"`
	Dumbbell        *Dumbbell   `yaml:"dumbbell,omitempty" jsonschema_description:"two switches, s1 and s2, with a bottleneck between them"`
	ParkingLot      *ParkingLot `yaml:"parking-lot,omitempty" jsonschema_description:"a chain of switches whose links each carry the long path and one short one"`
	LeafSpine       *LeafSpine  `yaml:"leaf-spine,omitempty" jsonschema_description:"leaves with hosts, each leaf joined to every spine"`
	FatTree         *FatTree    `yaml:"fat-tree,omitempty" jsonschema_description:"the k-ary fat-tree of switches with k ports (Al-Fares et al., SIGCOMM 2008)"`
}

// Star is hosts around the switch s1.
type Star struct {
	Hosts            Count `yaml:"hosts" jsonschema_description:"number of hosts"`
	change.LinkPatch `yaml:",inline"`
}

// Dumbbell is the switches s1 and s2 with hosts on both sides; the hosts on the
// left come first.
type Dumbbell struct {
	Left             Count            `yaml:"left" jsonschema_description:"number of hosts at s1"`
	Right            Count            `yaml:"right" jsonschema_description:"number of hosts at s2"`
	Bottleneck       change.LinkPatch `yaml:"bottleneck,omitempty" jsonschema_description:"settings of the link between the switches; default the settings of the hosts' links"`
	change.LinkPatch `yaml:",inline"`
}

// ParkingLot is a chain of Hops+1 switches s1, s2, ... with a bottleneck
// between neighbours. h1 and h2 are at the two ends of the chain; for each
// bottleneck i from 1, h(2i+1) is at s(i) and h(2i+2) is at s(i+1).
type ParkingLot struct {
	Hops             Count            `yaml:"hops" jsonschema_description:"number of bottleneck links"`
	Bottleneck       change.LinkPatch `yaml:"bottleneck,omitempty" jsonschema_description:"settings of the links between switches; default the settings of the hosts' links"`
	change.LinkPatch `yaml:",inline"`
}

// LeafSpine is leaves with hosts, and spines; each leaf is connected to every
// spine. The hosts of leaf1 come first.
type LeafSpine struct {
	Spines           Count            `yaml:"spines" jsonschema_description:"number of spines"`
	Leaves           Count            `yaml:"leaves" jsonschema_description:"number of leaves"`
	HostsPerLeaf     Count            `yaml:"hosts-per-leaf" jsonschema_description:"number of hosts at each leaf"`
	Uplink           change.LinkPatch `yaml:"uplink,omitempty" jsonschema_description:"settings of the links between leaves and spines; default the settings of the hosts' links"`
	change.LinkPatch `yaml:",inline"`
}

// FatTree is the k-ary fat-tree (Al-Fares et al., SIGCOMM 2008, §3): k pods of
// k/2 edge and k/2 aggregation switches, (k/2)² core switches, k³/4 hosts. Each
// edge switch has k/2 hosts and is connected to the aggregation switches of its
// pod; the i-th aggregation switch of each pod is connected to the i-th k/2
// core switches.
type FatTree struct {
	K                Radix            `yaml:"k" jsonschema_description:"number of ports of each switch, even; makes k*k*k/4 hosts"`
	Uplink           change.LinkPatch `yaml:"uplink,omitempty" jsonschema_description:"settings of the links between switches; default the settings of the hosts' links"`
	change.LinkPatch `yaml:",inline"`
}
