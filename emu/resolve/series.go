package resolve

import (
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/observe/series"
)

// maxPatterns bounds the patterns that are matched against up to 200000 ports.
const maxPatterns = 100

// resolveSamples resolves what to sample.
func resolveSamples(v *base, file *labfile.Series) {
	if file == nil {
		return
	}
	s := &plan.Series{Every: plan.DefaultSeries}
	setFrom(&s.Every, file.Every)
	if s.Every < series.MinVirtual || s.Every > series.MaxEvery {
		v.ReportFault(file.Every, "", "every %v is outside %v to %v", s.Every, series.MinVirtual, series.MaxEvery)
	}
	if n := len(file.Ports); n > maxPatterns {
		v.ReportFault(&file.Ports, `* stands for many ports: write for example "leaf*:*"`, "%d patterns exceed the limit of %d", n, maxPatterns)
		return
	}
	for i := range file.Ports {
		v.failName(&file.Ports[i], func() error {
			_, err := v.plan.MatchPorts(file.Ports[i : i+1])
			return err
		})
	}
	if v.Err() != nil {
		return
	}
	var err error
	if s.Ports, err = v.plan.MatchPorts(file.Ports); err != nil {
		v.ReportFault(file, "", "%v", err)
	}
	v.plan.Series = s
}
