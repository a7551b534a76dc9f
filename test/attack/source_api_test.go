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

// A thousand connections that say nothing, and a snapshot of small values, keep nobody from the HTTP API; nor do streams that are opened
// and reset on the port of xDS.
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
	q, err := http.NewRequest(http.MethodPut, "http://"+at+"/v1/snapshot", io.MultiReader(
		strings.NewReader(`{"services":[`), strings.NewReader(strings.Repeat("{},", 15_000_000)), strings.NewReader(`{}]}`)))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a snapshot of small values: status %d", answer.StatusCode)
	}
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
		fmt.Fprintf(&head, "\x00%c%s%c%s", len(h[0]), h[0], len(h[1]), h[1]) // a field of HPACK that is no part of any table
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
