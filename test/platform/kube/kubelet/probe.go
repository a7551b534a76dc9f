package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// eager is how often a probe is asked that has never succeeded, whatever its period: tests do not wait.
const eager = 200 * time.Millisecond

// probe asks until ctx ends, and says each answer to hear. It returns false where hear does.
func (p *Pod) probe(ctx context.Context, spec *corev1.Container, run *container, b *corev1.Probe, hear func(error) bool) bool {
	if !pause(ctx, time.Duration(b.InitialDelaySeconds)*time.Second) {
		return true
	}
	for succeeded := false; ; {
		bounded, cancel := context.WithTimeout(ctx, seconds(b.TimeoutSeconds, 1))
		err := p.ask(bounded, spec, run, b.ProbeHandler)
		cancel()
		if ctx.Err() != nil {
			return true
		}
		if err != nil {
			p.k.note(p, err)
		}
		if !hear(err) {
			return false
		}
		succeeded = succeeded || err == nil
		wait := seconds(b.PeriodSeconds, 10)
		if !succeeded {
			wait = min(wait, eager)
		}
		if !pause(ctx, wait) {
			return true
		}
	}
}

// tolerance is how long a probe may fail before that counts.
func tolerance(b *corev1.Probe) time.Duration {
	return time.Duration(max(b.FailureThreshold, 1)) * seconds(b.PeriodSeconds, 10)
}

func seconds(n, otherwise int32) time.Duration {
	if n == 0 {
		n = otherwise
	}
	return time.Duration(n) * time.Second
}

// pause is false where ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// ask carries a probe out once.
func (p *Pod) ask(ctx context.Context, spec *corev1.Container, run *container, h corev1.ProbeHandler) error {
	switch {
	case h.Exec != nil:
		_, err := run.exec(ctx, h.Exec.Command)
		return err
	case h.HTTPGet != nil:
		return p.httpGet(ctx, spec, *h.HTTPGet)
	case h.TCPSocket != nil:
		address, err := p.address(spec, h.TCPSocket.Host, h.TCPSocket.Port)
		if err != nil {
			return err
		}
		c, err := p.k.network.Host.DialContext(ctx, "tcp", address)
		if err == nil {
			c.Close()
		}
		return err
	}
	return errors.New("this kubelet has no probes of this kind")
}

// httpGet asks from Host, as a kubelet does from its machine.
func (p *Pod) httpGet(ctx context.Context, spec *corev1.Container, h corev1.HTTPGetAction) error {
	address, err := p.address(spec, h.Host, h.Port)
	if err != nil {
		return err
	}
	scheme := "http"
	if h.Scheme == corev1.URISchemeHTTPS {
		scheme = "https"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+h.Path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "kube-probe/test")
	for _, header := range h.HTTPHeaders {
		if request.Header.Add(header.Name, header.Value); header.Name == "Host" {
			request.Host = header.Value
		}
	}
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, DialContext: p.k.network.Host.DialContext,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // as kubelets do
	}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode >= 400 {
		return fmt.Errorf("%s: %s", request.URL, response.Status)
	}
	return nil
}

// address completes what a probe says by the pod's address and the container's ports.
func (p *Pod) address(spec *corev1.Container, host string, port intstr.IntOrString) (string, error) {
	if host == "" {
		host = p.ip
	}
	number := port.IntValue()
	for _, named := range spec.Ports {
		if port.Type == intstr.String && named.Name == port.StrVal {
			number = int(named.ContainerPort)
		}
	}
	if number == 0 {
		return "", fmt.Errorf("container %s has no port %s", spec.Name, port.String())
	}
	return net.JoinHostPort(host, strconv.Itoa(number)), nil
}

// hook carries a hook out, where there is one.
func (p *Pod) hook(ctx context.Context, spec *corev1.Container, run *container, h *corev1.LifecycleHandler) error {
	switch {
	case h == nil:
		return nil
	case h.Exec != nil:
		_, err := run.exec(ctx, h.Exec.Command)
		return err
	case h.HTTPGet != nil:
		return p.httpGet(ctx, spec, *h.HTTPGet)
	case h.Sleep != nil:
		select {
		case <-ctx.Done():
		case <-run.ended:
		case <-time.After(time.Duration(h.Sleep.Seconds) * time.Second):
		}
		return nil
	}
	return errors.New("this kubelet has no hooks of this kind")
}
