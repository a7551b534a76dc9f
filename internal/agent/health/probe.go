package health

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
)

// Probe is a readiness probe with its defaults filled in. Make it with Parse.
type Probe struct {
	Delay, Timeout, Period time.Duration
	Successes, Failures    int // in a row, before the state changes

	what string // for people
	ask  func(ctx context.Context) error
	spec *networking.ReadinessProbe
}

// String describes the check.
func (p *Probe) String() string { return p.what }

// same reports whether two probes check the same in the same way.
func (p *Probe) same(other *Probe) bool {
	return p.what == other.what && proto.Equal(p.spec, other.spec)
}

// Parse reads a probe; nil if there is none. host is the workload's own address: the default host of HTTP and gRPC checks. The
// default of TCP checks is localhost (comments of HTTPHealthCheckConfig and TCPHealthCheckConfig).
func Parse(spec *networking.ReadinessProbe, host string) (*Probe, error) {
	if spec == nil {
		return nil, nil
	}
	p := &Probe{spec: spec}
	errs := []error{p.method(spec, host)}
	seconds := func(field string, v int32, otherwise int32, to *time.Duration) {
		if v < 0 {
			errs = append(errs, fmt.Errorf("%s: %d; want a number of seconds", field, v))
		} else if v == 0 {
			v = otherwise
		}
		*to = time.Duration(v) * time.Second
	}
	seconds("initialDelaySeconds", spec.GetInitialDelaySeconds(), 0, &p.Delay)
	seconds("timeoutSeconds", spec.GetTimeoutSeconds(), 1, &p.Timeout)
	seconds("periodSeconds", spec.GetPeriodSeconds(), 10, &p.Period)
	count := func(field string, v int32, otherwise int, to *int) {
		if v < 0 {
			errs = append(errs, fmt.Errorf("%s: %d; want 1 or more", field, v))
		} else if *to = int(v); v == 0 {
			*to = otherwise
		}
	}
	count("successThreshold", spec.GetSuccessThreshold(), 1, &p.Successes)
	count("failureThreshold", spec.GetFailureThreshold(), 3, &p.Failures)
	return p, errors.Join(errs...)
}

func (p *Probe) method(spec *networking.ReadinessProbe, host string) (err error) {
	switch m := spec.GetHealthCheckMethod().(type) {
	case *networking.ReadinessProbe_HttpGet:
		p.what, p.ask, err = get(m.HttpGet, host)
	case *networking.ReadinessProbe_TcpSocket:
		at := address(m.TcpSocket.GetHost(), "localhost", m.TcpSocket.GetPort())
		p.what, p.ask = "tcpSocket "+at, func(ctx context.Context) error { return TCP(ctx, at) }
		err = checkPort("tcpSocket", m.TcpSocket.GetPort())
	case *networking.ReadinessProbe_Grpc:
		at := address("", host, m.Grpc.GetPort())
		p.what, p.ask = "grpc "+at, func(ctx context.Context) error { return GRPC(ctx, at, m.Grpc.GetService()) }
		err = checkPort("grpc", m.Grpc.GetPort())
	case *networking.ReadinessProbe_Exec:
		words := m.Exec.GetCommand()
		p.what, p.ask = "exec "+strings.Join(words, " "), func(ctx context.Context) error { return run(ctx, words) }
		if len(words) == 0 || words[0] == "" {
			err = errors.New("exec.command: missing; want a program and its arguments")
		}
	default:
		err = errors.New("it does not say what to ask; set one of httpGet, tcpSocket, exec, grpc")
	}
	return err
}

func checkPort(method string, port uint32) error {
	if port == 0 || port > 65535 {
		return fmt.Errorf("%s.port: %d; want 1 to 65535", method, port)
	}
	return nil
}

func address(host, otherwise string, port uint32) string {
	if host == "" {
		host = otherwise
	}
	return net.JoinHostPort(host, strconv.FormatUint(uint64(port), 10))
}

// get makes the check of httpGet.
func get(spec *networking.HTTPHealthCheckConfig, host string) (what string, ask func(context.Context) error, err error) {
	target := Target("http", address(spec.GetHost(), host, spec.GetPort()), spec.GetPath())
	switch {
	case strings.EqualFold(spec.GetScheme(), "https"):
		target.Scheme = "https"
	case spec.GetScheme() != "" && !strings.EqualFold(spec.GetScheme(), "http"):
		return "", nil, fmt.Errorf("httpGet.scheme: %q; want HTTP or HTTPS", spec.GetScheme())
	}
	header, name := http.Header{"User-Agent": {"kube-probe/fairway"}}, ""
	for _, h := range spec.GetHttpHeaders() {
		if strings.EqualFold(h.GetName(), "host") {
			name = h.GetValue()
			continue
		}
		header.Add(h.GetName(), h.GetValue())
	}
	client := newClient()
	return "httpGet " + target.String(), func(ctx context.Context) error {
		return client.ask(ctx, target.String(), name, header)
	}, checkPort("httpGet", spec.GetPort())
}
