package scale_test

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"fairway/test/rig"
)

var (
	services  = flag.Int("services", 400, "services of the larger mesh; the smaller one has 100")
	instances = flag.Int("instances", 2, "instances of each service")
	proxies   = flag.Int("proxies", 100, "proxies that are told")
	profiles  = flag.String("profiles", "", "where profiles of the program are kept; empty: nowhere")
)

// few is how many services the smaller mesh has. Memory is measured from many on: in smaller meshes the fixed cost of a program hides the
// difference.
const (
	few  = 100
	many = 2000
)

// rounds is how often a service changes.
const rounds = 60

// figures are of one program.
type figures struct {
	live        int        // bytes that are held, with two proxies, where there are many services
	memory      rig.Memory // of the process then
	median, p99 time.Duration
	cpu         time.Duration // of a change
	rows, bytes int           // of a change; bytes as one proxy is sent them
}

// TestScale: a change costs the same rows and bytes among few services and among many, from every registry; the times and the memory
// that it takes are logged.
func TestScale(t *testing.T) {
	if testing.Short() {
		t.Skip("real servers are filled with services")
	}
	var files figures
	for _, of := range kinds {
		t.Run(of.name, func(t *testing.T) {
			var got [2]figures
			for i, n := range []int{few, *services} {
				t.Run(fmt.Sprint(n), func(t *testing.T) { got[i] = measure(t, of, n) })
			}
			if t.Failed() {
				return
			}
			small, large := got[0], got[1]
			if small.rows != large.rows || small.bytes != large.bytes || small.rows == 0 || small.bytes == 0 {
				t.Errorf("a change is %d rows and %d bytes among %d services, %d and %d among %d",
					small.rows, small.bytes, few, large.rows, large.bytes, *services)
			}
			ratio := float64(large.cpu) / float64(small.cpu)
			t.Logf("CPU of a change among %d services: %.2f times that among %d", *services, ratio, few)
			if ratio > 4 { // well above the promised ratio, for machines with other work
				t.Errorf("the CPU of a change grows with the number of services: %.2f times", ratio)
			}
			if of.name == "files" {
				files = large
			} else if files.live > 0 {
				ratio := float64(large.live) / float64(files.live)
				t.Logf("memory: %.2f times that of the same services from files", ratio)
				if ratio > cmp.Or(of.more, 1.2) {
					t.Errorf("it holds %d MB; from files %d", large.live/1e6, files.live/1e6)
				}
			}
		})
	}
}

// measure has a program read so many services, and change.
func measure(t *testing.T, of kind, n int) (out figures) {
	begun := time.Now()
	from := of.start(t, n)
	t.Logf("%d services of %d instances registered in %s", n, *instances, time.Since(begun).Round(time.Millisecond))
	discovery.Path(t) // it is built with the first
	begun = time.Now()
	p := launch(t, from.folder(), from.entry())
	p.join(t, 2, n)
	t.Logf("two proxies hold everything %s after the start", time.Since(begun).Round(time.Millisecond))
	if *services >= many {
		out.live, out.memory = p.live(t), p.Memory(t)
		t.Logf("it holds %d MB, of %s", out.live/1e6, out.memory)
	}
	p.profile(t, "heap?gc=1", fmt.Sprintf("%s-%d-heap", of.name, n))
	p.join(t, *proxies, n)
	if of.name != "files" { // a folder takes no notice of time
		p.quiet(t)
	}
	var took []time.Duration
	var rows, bytes []int
	cpu := p.CPU(t)
	for round := range rounds {
		service := 10 + round%80
		before := p.rows(t)
		for _, x := range p.clients {
			x.TakeTotals()
		}
		begun := time.Now()
		from.change(t, service, fmt.Sprintf("10.251.%d.%d", 100+round, 100+service))
		took = append(took, p.told(t, service, begun)...)
		sent := p.clients[0].TakeTotals()
		rows, bytes = append(rows, int(p.rows(t)-before)), append(bytes, sent.Bytes)
	}
	out.cpu = (p.CPU(t) - cpu) / rounds
	slices.Sort(took)
	slices.Sort(rows)
	slices.Sort(bytes)
	out.median, out.p99 = took[len(took)/2], took[len(took)*99/100]
	out.rows, out.bytes = rows[rounds/2], bytes[rounds/2]
	t.Logf("%d services: to %d proxies median %s, p99 %s; %s of CPU, %d rows, %d bytes", n, len(p.clients),
		out.median.Round(10*time.Microsecond), out.p99.Round(10*time.Microsecond), out.cpu.Round(10*time.Microsecond),
		out.rows, out.bytes)
	if bound := of.poll + 3*time.Second; out.p99 > bound { // for machines that do other things
		t.Errorf("p99 is %s", out.p99)
	}
	return out
}

// quiet waits until the program computes nothing by itself.
func (p *program) quiet(t *testing.T) {
	t.Helper()
	last, since := p.rows(t), time.Now()
	rig.Eventually(t, func() error {
		if now := p.rows(t); now != last {
			last, since = now, time.Now()
		}
		if still := time.Since(since); still < 500*time.Millisecond {
			return fmt.Errorf("it has computed nothing for %s", still)
		}
		return nil
	})
}

// told waits until all proxies have received a service's endpoints after a moment, and returns how long each one took.
func (p *program) told(t *testing.T, service int, begun time.Time) (took []time.Duration) {
	t.Helper()
	for _, x := range p.clients {
		rig.Eventually(t, func() error {
			at, has := x.Since(clusterOf(service), begun)
			if !has {
				return fmt.Errorf("%s is not told of %s", x.Node.Id, clusterOf(service))
			}
			took = append(took, at.Sub(begun))
			return nil
		})
	}
	return took
}
