package status

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"fairway/internal/agent/health"
	"fairway/internal/web"
)

// Probes asks an application what Kubernetes would: the injector points the pod's probes here, because the kubelet has no
// certificate for the proxy.
type Probes struct {
	host string // where the application listens
	by   map[string]probe
	http *http.Transport
}

// probe is one of ISTIO_KUBE_APP_PROBERS: a container's probe before it was pointed here.
type probe struct {
	HTTP *struct {
		Path    string     `json:"path"`
		Port    portNumber `json:"port"`
		Host    string     `json:"host"`
		Scheme  string     `json:"scheme"`
		Headers []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"httpHeaders"`
	} `json:"httpGet"`
	TCP *struct {
		Port portNumber `json:"port"`
		Host string     `json:"host"`
	} `json:"tcpSocket"`
	GRPC *struct {
		Port    portNumber `json:"port"`
		Service string     `json:"service"`
	} `json:"grpc"`
	Timeout int `json:"timeoutSeconds"`
}

// portNumber is a port that may be written as a string.
type portNumber uint16

func (p *portNumber) UnmarshalJSON(raw []byte) error {
	n, err := strconv.ParseUint(strings.Trim(string(raw), `"`), 10, 16)
	if err != nil || n == 0 {
		return fmt.Errorf("%s is not a port: named ports are resolved by the injector", raw)
	}
	*p = portNumber(n)
	return nil
}

// NewProbes reads ISTIO_KUBE_APP_PROBERS: a JSON object from path to probe. Host is the application's address.
func NewProbes(text, host string) (Probes, error) {
	p := Probes{host: host, http: &http.Transport{
		DisableKeepAlives: true, DialContext: health.Dial,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // as the kubelet's probes: it asks for health, not for identity
	}}
	if strings.TrimSpace(text) == "" {
		return p, nil
	}
	if err := json.Unmarshal([]byte(text), &p.by); err != nil {
		return p, err
	}
	for path, one := range p.by {
		if !strings.HasPrefix(path, "/app-health/") && !strings.HasPrefix(path, "/app-lifecycle/") {
			return p, fmt.Errorf("%q begins with neither /app-health/ nor /app-lifecycle/", path)
		}
		if one.HTTP == nil && one.TCP == nil && one.GRPC == nil {
			return p, fmt.Errorf("%s: none of httpGet, tcpSocket, grpc", path)
		}
	}
	return p, nil
}

// ServeHTTP probes the application. For an HTTP probe it passes on the application's status; for others it answers 200 or 500.
func (p Probes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	one, known := p.by[r.URL.Path]
	if !known {
		http.Error(w, "no such probe: ISTIO_KUBE_APP_PROBERS does not name it", http.StatusNotFound)
		return
	}
	timeout := time.Duration(max(one.Timeout, 1)) * time.Second
	web.Extend(w, timeout)
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	if one.HTTP != nil {
		p.askHTTP(ctx, w, r, one)
		return
	}
	ask := p.askTCP
	if one.GRPC != nil {
		ask = p.askGRPC
	}
	if err := ask(ctx, one); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (p Probes) at(host string, port portNumber) string {
	if host == "" {
		host = p.host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

func (p Probes) askHTTP(ctx context.Context, w http.ResponseWriter, r *http.Request, one probe) {
	target := health.Target(cmp.Or(strings.ToLower(one.HTTP.Scheme), "http"), p.at(one.HTTP.Host, one.HTTP.Port), one.HTTP.Path)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	req.Header = r.Header.Clone() // kube-probe's User-Agent among them
	for _, h := range one.HTTP.Headers {
		if strings.EqualFold(h.Name, "host") {
			req.Host = h.Value
			continue
		}
		req.Header.Set(h.Name, h.Value)
	}
	client := http.Client{Transport: p.http, CheckRedirect: health.SameHostOnly}
	resp, err := client.Do(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer resp.Body.Close()
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, io.LimitReader(resp.Body, 10<<10)) // the kubelet shows the beginning of it
}

func (p Probes) askTCP(ctx context.Context, one probe) error {
	return health.TCP(ctx, p.at(one.TCP.Host, one.TCP.Port))
}

func (p Probes) askGRPC(ctx context.Context, one probe) error {
	return health.GRPC(ctx, p.at("", one.GRPC.Port), one.GRPC.Service)
}
