package ctl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairway/internal/admin/page"
	"fairway/internal/ctl/output"
)

// versions are the output of pilotctl version.
type versions struct {
	Client string         `json:"clientVersion"`
	Planes []planeVersion `json:"meshVersion,omitempty"`
	Proxy  []proxyVersion `json:"dataPlaneVersion,omitempty"`
}

type planeVersion struct {
	Name    string `json:"name"` // its pod, or its address
	Version string `json:"version"`
}

type proxyVersion struct {
	ID      string `json:"id"`
	Version string `json:"version"`
}

func (s *session) version(own string) *cobra.Command {
	remote := true
	c := &cobra.Command{
		Use: "version", Args: cobra.NoArgs,
		Short: "The versions of pilotctl, of the control planes, and of the proxies that are connected to them",
		RunE: s.run(func(cmd *cobra.Command, _ []string) error {
			out := versions{Client: own}
			var err error
			if remote {
				err = s.running(cmd.Context(), &out)
			}
			if shown := s.show(cmd, out.sheet()); shown != nil {
				return shown
			}
			return err
		}),
	}
	c.Flags().BoolVar(&remote, "remote", true, "ask the control planes too")
	return c
}

// running asks each control plane. If one does not answer, the answers of the others are kept.
func (s *session) running(ctx context.Context, out *versions) error {
	var first error
	for c, err := range s.planes(ctx) {
		var v page.Version
		var proxies []page.ProxySync
		if err == nil {
			v, err = fetch[page.Version](ctx, c, "/version", nil)
		}
		if err == nil {
			proxies, err = fetch[[]page.ProxySync](ctx, c, "/debug/syncz", nil)
		}
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		out.Planes = append(out.Planes, planeVersion{c.Called(), v.Version})
		for _, p := range proxies {
			out.Proxy = append(out.Proxy, proxyVersion{page.ShortName(p.ProxyID), p.IstioVersion})
		}
	}
	return first
}

func (v versions) sheet() output.Sheet {
	out := output.Sheet{Header: []string{"WHAT", "VERSION", "HOW MANY"}, Value: v, Rows: [][]string{{"client", v.Client, "-"}}}
	planes, proxies := map[string]int{}, map[string]int{}
	for _, p := range v.Planes {
		planes[p.Version]++
	}
	for _, p := range v.Proxy {
		proxies[p.Version]++
	}
	for _, part := range []struct {
		what  string
		count map[string]int
	}{{"control plane", planes}, {"data plane", proxies}} {
		for _, version := range sortedKeys(part.count) {
			out.Rows = append(out.Rows, []string{part.what, output.OrDash(version), fmt.Sprint(part.count[version])})
		}
	}
	return out
}

func sortedKeys(m map[string]int) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	slices.SortFunc(out, strings.Compare)
	return out
}
