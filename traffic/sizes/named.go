package sizes

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
)

// Known is a named distribution.
type Known struct {
	Name   string
	Origin string // what it describes and the source of its points
	points func() []Point
}

// All are the named distributions.
//
//	websearch   queries, control and background flows of a web search cluster: the DCTCP
//	            paper's (SIGCOMM 2010), with the points of HPCC's repository
//	            (traffic_gen/WebSearch_distribution.txt), used in the HPCC paper
//	fb-hadoop   Facebook's Hadoop clusters ("Inside the Social Network's (Datacenter)
//	            Network", SIGCOMM 2015), with the points of HPCC's repository
//	            (traffic_gen/FbHdp_distribution.txt), used in the HPCC paper
//	alistorage  Alibaba's distributed storage in production, 2019: HPCC's repository
//	            (traffic_gen/AliStorage2019.txt)
//	google-rpc  RPCs of Google before 2008: HPCC's repository
//	            (traffic_gen/GoogleRPC2008.txt); also known from the Homa paper
//	datamining  a cluster for data mining, from the VL2 paper (SIGCOMM 2009), with the
//	            points of RoCC's repository (commons/VL2_CDF)
//	rocc-fb     RoCC's repository (commons/FB_CDF): much smaller flows than fb-hadoop's
//
// RoCC's files begin above 0%, which its program reads as a step: half of rocc-fb's flows
// have exactly 75 B. Its DCTCP_CDF has the points of websearch, but the same step at the
// beginning: 15% of the flows have 10 KB there, where HPCC spreads them from 0 to 10 KB.
var All = []Known{
	{"websearch", "web search cluster of the DCTCP paper, points of HPCC's repository", func() []Point {
		return []Point{
			{0, 0}, {10_000, 15}, {20_000, 20}, {30_000, 30}, {50_000, 40}, {80_000, 53}, {200_000, 60},
			{1_000_000, 70}, {2_000_000, 80}, {5_000_000, 90}, {10_000_000, 97}, {30_000_000, 100},
		}
	}},
	{"fb-hadoop", "Facebook's Hadoop clusters, points of HPCC's repository", func() []Point {
		return []Point{
			{0, 0}, {100, 1}, {200, 2}, {300, 5}, {350, 15}, {400, 20}, {500, 30}, {600, 40}, {700, 50},
			{1000, 60}, {2000, 67}, {7000, 70}, {30_000, 72}, {50_000, 82}, {80_000, 87}, {120_000, 90},
			{300_000, 95}, {1_000_000, 97.5}, {2_000_000, 99}, {10_000_000, 100},
		}
	}},
	{"alistorage", "Alibaba's distributed storage in 2019, points of HPCC's repository", func() []Point {
		return []Point{
			{0, 0}, {4000, 22.93}, {8000, 69.21}, {16_000, 80.61}, {32_000, 90.47}, {64_000, 93.53},
			{128_000, 96.77}, {256_000, 97.53}, {2_000_000, 100},
		}
	}},
	{"google-rpc", "Google's RPCs before 2008, points of HPCC's repository", googleRPC},
	{"datamining", "data mining cluster of the VL2 paper, points of RoCC's repository", func() []Point {
		return []Point{
			{180, 0}, {180, 10}, {216, 20}, {560, 30}, {900, 40}, {1100, 50}, {1870, 60}, {3160, 70},
			{10_000, 80}, {400_000, 90}, {3_160_000, 95}, {100_000_000, 98}, {1_000_000_000, 100},
		}
	}},
	{"rocc-fb", "the FB_CDF of RoCC's repository", func() []Point {
		return []Point{
			{75, 0}, {75, 50}, {250, 75}, {350, 90}, {1000, 96.5}, {2515, 98}, {6326, 99}, {10_032, 99.5},
			{15_910, 99.7}, {23_009, 99.92}, {24_094, 99.96}, {25_000, 99.99}, {100_000, 99.999}, {1_000_000, 100},
		}
	}},
}

// googleRPC returns the points of GoogleRPC2008.txt. Between the sizes below, mostly
// powers of two, that file has points at which 1/size falls in equal steps while the
// percentage rises in equal steps.
func googleRPC() []Point {
	knots := []struct {
		Point
		steps int // from the previous knot
	}{
		{Point{3, 6.48826}, 1}, {Point{32, 9.73239}, 1}, {Point{64, 15.5271}, 5}, {Point{128, 35.1573}, 6},
		{Point{256, 49.7901}, 8}, {Point{512, 78.4921}, 11}, {Point{1024, 86.32}, 14}, {Point{2048, 90.8862}, 18},
		{Point{4096, 93.4955}, 24}, {Point{8192, 96.4309}, 31}, {Point{16_384, 98.4694}, 41},
		{Point{32_768, 99.0402}, 53}, {Point{65_536, 99.3256}, 69}, {Point{131_072, 99.7129}, 90},
		{Point{262_144, 99.8453}, 118}, {Point{524_288, 99.9498}, 153}, {Point{15_158_197, 100}, 199},
	}
	points := []Point{{0, 0}}
	for _, k := range knots {
		from := points[len(points)-1]
		for i := 1; i < k.steps; i++ {
			t := float64(i) / float64(k.steps)
			points = append(points, Point{
				wholeBytes(math.Round(1 / (1/float64(from.Size)*(1-t) + 1/float64(k.Size)*t))),
				from.Percent*(1-t) + k.Percent*t,
			})
		}
		points = append(points, k.Point)
	}
	return points
}

// cdfs makes each named distribution once.
var cdfs = sync.OnceValue(func() map[string]*CDF {
	made := map[string]*CDF{}
	for _, k := range All {
		c, err := NewCDF(k.points())
		if err != nil {
			panic(k.Name + ": " + err.Error())
		}
		made[k.Name] = c
	}
	return made
})

// FindNamed returns a distribution of All by its name.
func FindNamed(name string) (*CDF, error) {
	if c := cdfs()[name]; c != nil {
		return c, nil
	}
	names := make([]string, len(All))
	for i, k := range All {
		names[i] = k.Name
	}
	slices.Sort(names)
	return nil, fmt.Errorf("unknown sizes %q: there are %s", name, strings.Join(names, ", "))
}
