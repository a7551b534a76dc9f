package ctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairway/internal/admin/page"
	"fairway/internal/ctl/output"
	"fairway/internal/printable"
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
	remote, short := true, false
	c := &cobra.Command{
		Use: "version", Args: cobra.NoArgs,
		Short: "The versions of pilotctl, of the control planes, and of the proxies that are connected to them",
		RunE: s.run(func(cmd *cobra.Command, _ []string) error {
			out := versions{Client: built(cmp.Or(cmd.Root().Version, own))}
			var err error
			if remote {
				err = s.running(cmd.Context(), &out)
			}
			if short && s.format == "table" {
				return errors.Join(out.lines(cmd.OutOrStdout()), err)
			}
			return errors.Join(s.show(cmd, out.sheet()), err)
		}),
	}
	c.Flags().BoolVar(&remote, "remote", true, "ask the control planes too")
	c.Flags().BoolVarP(&short, "short", "s", false, "a line for each part, as istioctl prints them")
	return c
}

// built adds the commit and its date to a version without them, if the build knows them.
func built(version string) string {
	info, known := debug.ReadBuildInfo()
	if !known || strings.Contains(version, "commit ") {
		return version
	}
	var commit, date string
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.time":
			date = s.Value
		}
	}
	if commit == "" {
		return version
	}
	return fmt.Sprintf("%s (commit %.12s, %s)", version, commit, date)
}

// lines prints a line for each part. Versions of one part are in one line.
func (v versions) lines(w io.Writer) error {
	out := []string{"client version: " + v.Client}
	planes, proxies := v.counts()
	add := func(what, noun, many string, count map[string]int) {
		var parts []string
		for _, version := range sortedKeys(count) {
			part := printable.Text(version, printable.Short)
			if noun != "" {
				part += " (" + output.Number(count[version], noun, many) + ")"
			}
			parts = append(parts, part)
		}
		if len(parts) > 0 {
			out = append(out, what+" version: "+strings.Join(parts, ", "))
		}
	}
	add("control plane", "", "", planes)
	add("data plane", "proxy", "proxies", proxies)
	_, err := fmt.Fprintln(w, strings.Join(out, "\n"))
	return err
}

// counts returns how many control planes and proxies have each version.
func (v versions) counts() (planes, proxies map[string]int) {
	planes, proxies = map[string]int{}, map[string]int{}
	for _, p := range v.Planes {
		planes[p.Version]++
	}
	for _, p := range v.Proxy {
		proxies[p.Version]++
	}
	return planes, proxies
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
	planes, proxies := v.counts()
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
