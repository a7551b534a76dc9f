package envoy

import (
	"testing"
	"time"

	"fairway/test/envoy/live"
)

func disturbing() []feature {
	return []feature{
		{"fault: abort", abort},
		{"fault: delay", delay},
		{"mirror", mirror},
	}
}

// abort: requests are answered with the fault's status without reaching the backend, as many as the percentage says.
func abort(t *testing.T, m *live.Mesh) {
	b := m.Backend(t, "abort")
	m.Apply(t, service("abort.test", "abort")+virtual("abort.test", `
  http:
  - match: [{uri: {prefix: /half}}]
    fault: {abort: {httpStatus: 404, percentage: {value: 50}}}
    route: [{destination: {host: abort.test}}]
  - match: [{uri: {prefix: /all}}]
    fault: {abort: {httpStatus: 418, percentage: {value: 100}}}
    route: [{destination: {host: abort.test}}]
  - route: [{destination: {host: abort.test}}]
`))
	wantStatus(t, live.Send(t, at(m, "abort.test", "/all")), 418)
	if n := b.Count(); n != 0 {
		t.Errorf("%d aborted requests reached the backend", n)
	}
	wantStatus(t, live.Send(t, at(m, "abort.test", "/")), 200)
	got := live.Tally(t, 400, at(m, "abort.test", "/half"))
	if n := got["abort"]; n < 150 || n > 250 {
		t.Errorf("half of 400 requests are to be aborted, got %v", got)
	}
}

// delay: requests wait before they go on.
func delay(t *testing.T, m *live.Mesh) {
	m.Backend(t, "delay")
	m.Apply(t, service("delay.test", "delay")+virtual("delay.test", `
  http:
  - match: [{uri: {prefix: /late}}]
    fault: {delay: {fixedDelay: 0.3s, percentage: {value: 100}}}
    route: [{destination: {host: delay.test}}]
  - route: [{destination: {host: delay.test}}]
`))
	late := live.Send(t, at(m, "delay.test", "/late"))
	wantServer(t, late, "delay")
	if late.Took < 290*time.Millisecond {
		t.Errorf("a delay of 300 ms took %s", late.Took)
	}
	// The quickest of several, since the machine may be busy.
	quickest := time.Hour
	for range 10 {
		quickest = min(quickest, live.Send(t, at(m, "delay.test", "/")).Took)
	}
	if quickest > 250*time.Millisecond {
		t.Errorf("without a fault a request took %s", quickest)
	}
}

// mirror: a copy goes elsewhere; the answer is the first destination's.
func mirror(t *testing.T, m *live.Mesh) {
	m.Backend(t, "mirror-main")
	copies := m.Backend(t, "mirror-copy")
	m.Apply(
		t,
		service("mirror.test", "mirror-main:main", "mirror-copy:copy")+subsets("mirror.test", "main", "copy")+virtual("mirror.test", `
  http:
  - match: [{uri: {prefix: /none}}]
    route: [{destination: {host: mirror.test, subset: main}}]
    mirror: {host: mirror.test, subset: copy}
    mirrorPercentage: {value: 0}
  - match: [{uri: {prefix: /list}}]
    route: [{destination: {host: mirror.test, subset: main}}]
    mirrors: [{destination: {host: mirror.test, subset: copy}, percentage: {value: 100}}]
  - route: [{destination: {host: mirror.test, subset: main}}]
    mirror: {host: mirror.test, subset: copy}
`),
	)
	for range 5 {
		wantServer(t, live.Send(t, at(m, "mirror.test", "/none/x")), "mirror-main")
	}
	for _, path := range []string{"/copied", "/list"} {
		wantServer(t, live.Send(t, at(m, "mirror.test", path)), "mirror-main")
		copies.Await(t, func(e live.Echo) bool { return e.Path == path })
	}
	if n := copies.Count(); n != 2 {
		t.Errorf("%d requests were mirrored, want 2", n)
	}
}
