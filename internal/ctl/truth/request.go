package truth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"fairway/internal/admin/page"
	"fairway/internal/ctl/output"
	"fairway/internal/ctl/truth/logline"
	"fairway/internal/printable"
)

// requesting holds the flags of explain that are about a request.
type requesting struct {
	headers             []string
	from, trust, source string
}

func (r *requesting) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVarP(&r.headers, "header", "H", nil, "header of the request, as 'NAME: VALUE'; may be repeated")
	f.StringVar(&r.from, "from", "", "the request comes from the workload of this proxy: its way there is shown first, then that through "+
		"PROXY")
	f.StringVar(&r.trust, "trust-domain", "", "of the caller's identity; empty: the mesh's own")
	f.StringVar(&r.source, "source", "", "address that the request comes from")
}

// hop is what one proxy does with the request.
type hop struct {
	Hop string `json:"hop"` // client or server
	page.RequestExplanation
}

// run explains what a proxy does with a request: args are the proxy, the method, and the host with port and path.
func (r *requesting) run(cmd *cobra.Command, s Session, args []string) error {
	query, err := target(args[1], args[2])
	if err != nil {
		return err
	}
	query["header"] = r.headers
	defer s.Close()
	hops, err := r.hops(cmd.Context(), s, args[0], query)
	if err != nil && len(hops) == 0 {
		return output.CannotSay(err)
	}
	missing := errors.Is(err, errElsewhere)
	err = errors.Join(show(cmd, s, hops, func(w io.Writer) error { return writeHops(w, hops) }), err)
	switch {
	case err != nil && missing:
		return output.Fail(err)
	case err != nil:
		return output.CannotSay(err)
	}
	if last := hops[len(hops)-1]; !slices.ContainsFunc(last.Ways, arrives) {
		return output.Fail(errors.New("the request does not arrive"))
	}
	return nil
}

// arrives reports whether a way leads to an endpoint, or may.
func arrives(w page.RequestWay) bool {
	return w.Outcome.Kind == "unknown" || w.Outcome.Kind == "forwarded" && w.Outcome.Flag == "" ||
		w.Outcome.Kind == "answered" && w.Outcome.Status > 0 && w.Outcome.Status < 400
}

// target reads HOST[:PORT][/PATH]. Without a port, the control plane takes the one that the host has.
func target(method, text string) (url.Values, error) {
	host, path, _ := strings.Cut(strings.TrimPrefix(text, "http://"), "/")
	port := ""
	if h, p, err := net.SplitHostPort(host); err == nil {
		host, port = h, p
	}
	host = strings.Trim(host, "[]")
	n, err := strconv.ParseUint(cmp.Or(port, "80"), 10, 16)
	if err != nil || n == 0 || host == "" || strings.Contains(strings.TrimPrefix(text, "http://"), "://") {
		return nil, fmt.Errorf("%s: want HOST, HOST:PORT or HOST:PORT/PATH", printable.Text(text, printable.Short))
	}
	out := url.Values{"method": {method}, "host": {host}, "path": {"/" + path}}
	if port != "" {
		out.Set("port", port)
	}
	return out, nil
}

// hops asks the proxy; if the request comes from another proxy's workload, it asks that one first.
func (r *requesting) hops(ctx context.Context, s Session, proxy string, query url.Values) (out []hop, err error) {
	planes, err := s.Planes(ctx)
	if len(planes) == 0 {
		return nil, err
	}
	if r.source != "" {
		query.Set("source", r.source)
	}
	if r.from == "" {
		query.Set("proxyID", proxy)
		answer, err := first(ctx, planes, query)
		if err != nil {
			return nil, err
		}
		return append(out, hop{"client", answer}), nil
	}
	all, err := gathered(ctx, planes)
	if err != nil {
		return nil, err
	}
	client, err := one(all, r.from)
	if err != nil {
		return nil, err
	}
	server, err := one(all, proxy)
	if err != nil {
		return nil, err
	}
	query.Set("proxyID", client.ProxyID)
	answer, err := first(ctx, planes, query)
	if err != nil {
		return nil, err
	}
	out = append(out, hop{"client", answer})
	way, port, ok := wayTo(answer, page.NodeAddress(server.ProxyID))
	if !ok {
		return out, fmt.Errorf("%w %s", errElsewhere, page.ShortName(server.ProxyID))
	}
	onward := url.Values{
		"proxyID": {server.ProxyID}, "direction": {"inbound"}, "method": query["method"], "header": query["header"],
		"host": {way.Outcome.Authority}, "port": {port}, "path": {way.Outcome.Path}, "source": {page.NodeAddress(client.ProxyID)},
	}
	if onward.Get("host") == "" {
		onward.Set("host", query.Get("host"))
	}
	if onward.Get("path") == "" {
		onward.Set("path", query.Get("path"))
	}
	onward.Set("authority", onward.Get("host"))
	if client.Identity != "" {
		logline.Peer(onward, client.Identity, r.trust)
		onward.Set("sni", query.Get("host"))
		onward["alpn"] = []string{"istio-http/1.1", "istio"}
	}
	answer, err = first(ctx, planes, onward)
	if err != nil {
		return out, err
	}
	return append(out, hop{"server", answer}), nil
}

var errElsewhere = errors.New("the client's proxy does not lead the request to")

// first returns the answer of the first control plane that has one: a proxy is connected to one of them.
func first(ctx context.Context, planes []Plane, query url.Values) (out page.RequestExplanation, err error) {
	var errs []error
	for _, c := range planes {
		if err = c.Fetch(ctx, "/debug/explainz", query, &out); err == nil {
			return out, nil
		}
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}

// gathered lists the proxies of all control planes.
func gathered(ctx context.Context, planes []Plane) (all []page.ProxySync, err error) {
	for _, c := range planes {
		var some []page.ProxySync
		if err := c.Fetch(ctx, "/debug/syncz", logline.NamesOnly, &some); err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// one finds the proxy that a user names.
func one(all []page.ProxySync, name string) (page.ProxySync, error) {
	best, found := 0, page.ProxySync{}
	for _, p := range all {
		if fit := page.Fit(p.ProxyID, p.Identity, name); fit > best {
			best, found = fit, p
		}
	}
	if best == 0 {
		return found, fmt.Errorf("no connected proxy is called %q; pilotctl proxy-status lists them", name)
	}
	return found, nil
}

// wayTo returns the most probable way that leads to an address, and the port there.
func wayTo(a page.RequestExplanation, to string) (page.RequestWay, string, bool) {
	for _, w := range a.Ways {
		for _, e := range w.Outcome.Endpoints {
			if host, port, err := net.SplitHostPort(e.Address); err == nil && host == to {
				return w, port, true
			}
		}
	}
	return page.RequestWay{}, "", false
}

func writeHops(w io.Writer, hops []hop) error {
	var b sentences
	for i, h := range hops {
		if i > 0 {
			b.line("")
		}
		b.line("%s, %s:", page.ShortName(h.ProxyID), h.Hop)
		b.WriteString(printable.Lines(h.Text, 1<<20))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
