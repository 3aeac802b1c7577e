package experiment

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// fullScript runs an experiment of many cells on a disk that has room for a few: with processes of
// this machine, with a server and a worker, and collected from a part. Then the disk grows.
const fullScript = `
mount -t tmpfs -o size=256k tmpfs "$2" || exit 9
weft=$1 file=$3
cd "$2" || exit 8
$weft experiment $file -o out -j 1 2>&1; echo "full: $?, $(ls out/cells | wc -l) stored"
rm -r out
$weft experiment $file -o out --serve 127.0.0.1:0 2>&1; echo "served: $?"
rm -r out
$weft experiment $file -o "$4" >/dev/null 2>&1; echo "elsewhere: $?"
$weft collect $file "$4" -o out 2>&1; echo "collected: $?, $(ls out/cells | wc -l) stored"
mount -o remount,size=64m "$2"
$weft experiment $file -o out 2>&1; echo "enlarged: $?, $(ls out/cells | wc -l) stored"
`

// TestExperiment_StopsWhenTheDiskIsFull: the first cell whose result cannot be written ends the
// experiment; the error names it and the file, and the same command continues.
func TestExperiment_StopsWhenTheDiskIsFull(t *testing.T) {
	t.Parallel()
	weft, dir := testlab.Need(t, "unshare", "mount"), t.TempDir()
	file := filepath.Join(dir, "many.yaml")
	if err := os.WriteFile(file, []byte(`
lab:
  topology: {generate: {star: {hosts: 4, rate: 10Gbps, delay: 1us}}}
  duration: 2ms
  workload: [{arrivals: {load: 50%, sizes: 10KB, stop: 1ms, by: {udp: {rate: 10Gbps}}}}]
seeds: 40
record: {every: 10us, queues: "*:*"}
measure: {slowdown: {of: flows, column: slowdown}}
`), 0o644); err != nil {
		t.Fatal(err)
	}
	disk := filepath.Join(dir, "disk")
	if err := os.Mkdir(disk, 0o777); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("unshare", "-m", "sh", "-c", fullScript, "sh", weft, disk, file, filepath.Join(dir, "elsewhere")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	full := regexp.MustCompile(`(?s)weft: the result of seed=\d+ cannot be stored: \S+ out/cells/[0-9a-f]+\.zip: no space left on device\n(\d+) of 40 cells are stored: run the same command again to continue\nfull: 1, (\d+) stored\n(.*)$`).FindStringSubmatch(string(out))
	if full == nil {
		t.Fatalf("%s", out)
	}
	if n, err := strconv.Atoi(full[1]); err != nil || n == 0 || n >= 40 || full[2] != full[1] || strings.Count(string(out[:len(out)-len(full[0])]), "done (") != n {
		t.Errorf("%s cells are stored, %s files\n%s", full[1], full[2], out)
	}
	if !regexp.MustCompile(`(?s)weft: (the NATS server cannot store jobs and results|the result of seed=\d+ cannot be stored): .*no space left on device\n\d+ of 40 cells are stored.*\nserved: 1\nelsewhere: 0\nweft: \S+ out/cells/[0-9a-f]+\.zip: no space left on device\ncollected: 1, [1-9]\d* stored\n.*\nenlarged: 0, 40 stored\n$`).MatchString(full[3]) {
		t.Errorf("%s", full[3])
	}
}
