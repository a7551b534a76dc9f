package attack

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"fairway/test/rig"
)

// A thousand connections that say nothing, and a snapshot of small values, do not block other clients of the HTTP API; nor do streams that
// are opened and reset on the port of xDS.
func TestSilentCallersOfTheAPI(t *testing.T) {
	at := fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t))
	r := startReading(t, "--registriesConfig", rig.Write(t, rig.Folder(t), "registries", []byte(
		fmt.Sprintf("registries:\n- name: api\n  memory: {address: '%s'}\n", at))))
	put := func() error {
		q, err := http.NewRequest(http.MethodPut, "http://"+at+"/v1/services/shop/web", strings.NewReader(
			`{"instances":[{"id":"a","addresses":["10.0.0.1"],"port":80}]}`))
		if err != nil {
			return err
		}
		client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		answer, err := client.Do(q)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode >= 300 {
			return fmt.Errorf("status %d", answer.StatusCode)
		}
		return nil
	}
	rig.Eventually(t, put)
	for range 1500 {
		c, err := net.DialTimeout("tcp", at, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	from := time.Now()
	if err := put(); err != nil || time.Since(from) > 2*time.Second {
		t.Errorf("beside silent connections: %v after %s", err, time.Since(from))
	}
	refusedSoon(t, at, `{"services":[`+strings.Repeat("{},", 15_000_000)+`{}]}`, http.StatusRequestEntityTooLarge, "15000002 values")
	r.holds(t)
}

// refusedSoon puts a snapshot into an HTTP API. It fails the test if that is not refused soon after it was sent, for a reason. The API's
// callers get the reason in the answer: a snapshot is refused as a whole, so no part of it is reported as left out.
func refusedSoon(t *testing.T, at, snapshot string, status int, why string) {
	t.Helper()
	var all sent
	body := io.MultiReader(strings.NewReader(snapshot), end{&all})
	q, err := http.NewRequest(http.MethodPut, "http://"+at+"/v1/snapshot", body)
	if err != nil {
		t.Fatal(err)
	}
	from := time.Now()
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != status || !strings.Contains(string(text), why) {
		t.Errorf("status %d, %.300s %v; want %d, %s", answer.StatusCode, text, err, status, why)
	}
	if n := all.at.Load(); n != 0 { // else it is refused before all is sent
		from = time.Unix(0, n)
	}
	took := time.Since(from)
	t.Logf("%q is told %s after it was sent", why, took)
	if took > soon {
		t.Errorf("%q is told %s after it was sent, want at most %s", why, took, soon)
	}
}

// end is the end of a body, which notes when it is reached.
type end struct{ *sent }

func (e end) Read([]byte) (int, error) {
	e.now()
	return 0, io.EOF
}

// A snapshot of more ports, services, instances or bytes than the API keeps is refused soon, with the bound.
func TestSnapshotsOfTooMuch(t *testing.T) {
	at := fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t))
	r := startReading(t, "--registriesConfig", rig.Write(t, rig.Folder(t), "registries", []byte(
		fmt.Sprintf("registries:\n- name: api\n  memory: {address: '%s', maxPorts: 5000, maxStateMiB: 8}\n", at))))
	rig.Eventually(t, func() error { // that it is served
		answer, err := http.Get("http://" + at + "/v1/services")
		if err == nil {
			answer.Body.Close()
		}
		return err
	})
	services := func(n int, instances string) string {
		const text = `{"namespace":"shop","name":"s-%%d","instances":[%s]}`
		return `{"services":[` + items(n, ",", fmt.Sprintf(text, instances)) + "]}"
	}
	ports := `{"id":"a","addresses":["10.0.0.1"],"ports":[` + items(90, ",", `{"name":"p-%d","number":2%04[1]d}`) + "]}"
	labels := items(25, ",", `"x-%d":"`+strings.Repeat("x", 60)+`"`)
	large := `{"id":"a","addresses":["10.0.0.1"],"port":80,"labels":{` + labels + "}}"
	r.meanwhile(t, func() {
		refusedSoon(t, at, services(700, ports), http.StatusInsufficientStorage, "ports of at most 5000 (maxPorts)")
		refusedSoon(t, at, services(60_000, `{"id":"a","addresses":["10.0.0.1"],"port":80}`), http.StatusInsufficientStorage,
			"there would be at least 5001 ports of at most 5000 (maxPorts)")
		refusedSoon(t, at, services(100_001, ""), http.StatusInsufficientStorage, "more than 100000")
		refusedSoon(t, at, services(7_500, large), http.StatusInsufficientStorage, "bytes of at most 8388608 (maxStateMiB)")
	})
	r.holds(t)
}

// Streams that are opened and reset, again and again, on one connection take neither memory nor other callers' time.
func TestStreamsThatAreReset(t *testing.T) {
	p, _ := startXDS(t, nil)
	c, err := net.DialTimeout("tcp", p.Address(), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go func() { _, _ = io.Copy(io.Discard, c) }()
	var head strings.Builder
	for _, h := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"},
		{":path", "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"},
	} {
		fmt.Fprintf(&head, "\x00%c%s%c%s", len(h[0]), h[0], len(h[1]), h[1]) // a field of HPACK that is not a part of any table
	}
	const settings, headers, reset, endHeaders = 4, 1, 3, 4
	_ = c.SetWriteDeadline(time.Now().Add(10 * time.Second))
	out := bufio.NewWriter(c)
	fmt.Fprint(out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", frameOf(settings, 0, 0, ""))
	for i := range uint32(50_000) {
		fmt.Fprint(out, frameOf(headers, endHeaders, 2*i+1, head.String()), frameOf(reset, 0, 2*i+1, "\x00\x00\x00\x08"))
	}
	_ = out.Flush() // the server may have had enough, or read no more
	s := openRaw(t, rawConn(t, p.Address()))
	s.say(rawHello(honest("web"), "type.googleapis.com/envoy.config.cluster.v3.Cluster"))
	s.answered()
}

// frameOf is a frame of HTTP/2.
func frameOf(typ, flags byte, stream uint32, body string) string {
	size := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	head := append(size[1:], typ, flags)
	return string(binary.BigEndian.AppendUint32(head, stream)) + body
}
