package exposition

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestMerge(t *testing.T) {
	const envoy = `# TYPE envoy_istio_requests_total counter
envoy_istio_requests_total 12

# HELP envoy_istio_request_duration_milliseconds How long
# TYPE envoy_istio_request_duration_milliseconds histogram
envoy_istio_request_duration_milliseconds_bucket 1
envoy_istio_request_duration_milliseconds_sum 3
envoy_istio_request_duration_milliseconds_count 1
# TYPE envoy_server_live gauge
envoy_server_live{} 1
`
	const app = `# TYPE http_hits counter
http_hits 4
# TYPE envoy_server_live gauge
envoy_server_live{} 9
# a comment
untyped_thing 3 1700000000
<html>no metric</html>
# EOF
# TYPE istio_request_duration_milliseconds histogram
istio_request_duration_milliseconds_bucket{le="1"} 77
`
	var out strings.Builder
	m := New(&out)
	if err := m.Add(strings.NewReader(envoy), Text, Istio(Workload{})); err != nil {
		t.Fatal(err)
	}
	if err := m.Add(strings.NewReader(app), Text, nil); err != nil {
		t.Fatal(err)
	}
	if err := m.Flush(); err != nil {
		t.Fatal(err)
	}
	want := `# TYPE istio_requests_total counter
istio_requests_total 12
# HELP istio_request_duration_milliseconds How long
# TYPE istio_request_duration_milliseconds histogram
istio_request_duration_milliseconds_bucket 1
istio_request_duration_milliseconds_sum 3
istio_request_duration_milliseconds_count 1
# TYPE envoy_server_live gauge
envoy_server_live{} 1
# TYPE http_hits counter
http_hits 4
untyped_thing 3 1700000000
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if m.Dropped() != 5 {
		t.Errorf("%d lines dropped, want 5", m.Dropped())
	}
}

func TestAddFails(t *testing.T) {
	broken := errors.New("broken")
	m := New(&strings.Builder{})
	if err := m.Add(iotest.ErrReader(broken), Text, nil); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}
