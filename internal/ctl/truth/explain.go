package truth

import (
	"context"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairway/internal/admin/page"
	"fairway/internal/config"
	"fairway/internal/ctl/output"
)

// explanation is all that control planes know of an object.
type explanation struct {
	Live     []liveOn           `json:"live"`
	Applies  *page.ObjectReach  `json:"applies,omitempty"` // absent: the control planes do not tell the caller
	Problems []page.ProblemInfo `json:"problems"`
}

// explain is about an object (its state, the proxies that it makes a difference for, its problems), a request, or a line of an access log.
func explain(s Session) *cobra.Command {
	namespace, request, lines := "", &requesting{}, &logging{}
	cmd := &cobra.Command{
		Use:   "explain {KIND/[NAMESPACE/]NAME | PROXY METHOD HOST[:PORT][/PATH] | --log LINE}",
		Short: "Explain an object, the way of a request through a proxy, or a line of an access log",
		Long: "Of an object: shows in one answer what pilotctl wait, applies and problems tell of it.\n\n" +
			"Of a request: follows it through the resources that the proxy holds: listener, filter chain, policies, virtual host, " +
			"route (and those above that did not match, and why), cluster, endpoints. With --from it first shows the way from there.\n\n" +
			"  pilotctl explain virtualservice/shop/reviews\n" +
			"  pilotctl explain web-1.shop GET reviews:9080/health -H 'end-user: jason'\n" +
			"  pilotctl explain reviews-1.shop GET reviews:9080/ --from web-1.shop\n\n" +
			"Of a line of an access log (--log, or --log - for lines from standard input): says why the proxy answered so, which object " +
			"made it do so, with file and line, and what would be right. The request is replayed through the configuration of the proxy " +
			"that wrote the line: the one with the line's addresses, or --proxy.\n\n" +
			"  pilotctl explain --log '[2026-11-28T10:02:03.118Z] \"GET /a HTTP/1.1\" 404 NR route_not_found …'\n" +
			"  kubectl logs web-1 -c istio-proxy | pilotctl explain --log - --proxy web-1.shop\n\n" +
			"It ends with 0 if the object is in force on all proxies and has no errors, the request arrives, or the line is of a request " +
			"that the application answered; with 1 if not, and with 2 if that cannot be said.",
		Args: func(cmd *cobra.Command, args []string) error {
			if lines.wanted() {
				return lines.check(cmd, args)
			}
			if len(args) != 1 && len(args) != 3 {
				return errors.New("want an object as KIND/NAME, a request as PROXY METHOD HOST[:PORT][/PATH], or a line of an access log " +
					"as --log LINE")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if lines.wanted() {
				return lines.run(cmd, s, request)
			}
			if len(args) == 3 {
				return request.run(cmd, s, args)
			}
			k, err := objectCalled(args[0], namespace)
			if err != nil {
				return err
			}
			defer s.Close()
			found, err := explained(cmd.Context(), s, k)
			if err != nil {
				return output.CannotSay(err)
			}
			err = show(cmd, s, found, func(w io.Writer) error { return found.write(w, title(k)) })
			if err == nil && !found.good() {
				err = errNotInForce
			}
			if err != nil {
				return output.Fail(err)
			}
			return nil
		},
	}
	request.bind(cmd)
	lines.bind(cmd)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "default", "namespace of an object that names none")
	return cmd
}

func explained(ctx context.Context, s Session, k config.Key) (out explanation, err error) {
	planes, err := s.Planes(ctx)
	if err != nil {
		return out, err
	}
	q := question(k)
	if out.Live, err = askAll(ctx, planes, q, false); err != nil {
		return out, err
	}
	out.Problems = []page.ProblemInfo{}
	for _, c := range planes {
		var all []page.ProblemInfo
		if err := c.Fetch(ctx, "/debug/problems", nil, &all); err != nil {
			return out, err
		}
		for _, p := range all {
			if p.Kind == string(k.Kind) && p.Namespace == k.Namespace && p.Name == k.Name && !slices.Contains(out.Problems, p) {
				out.Problems = append(out.Problems, p)
			}
		}
	}
	// Callers of one namespace may not see this page: the rest of the answer is for them all the same.
	if found, _ := reaches(ctx, s, url.Values{"kind": {string(k.Kind)}, "namespace": {k.Namespace}, "name": {k.Name}}); len(found) == 1 {
		out.Applies = &found[0]
	}
	return out, nil
}

// good reports whether the object is in force everywhere, without errors.
func (e explanation) good() bool {
	return !slices.ContainsFunc(e.Live, func(a liveOn) bool { return !a.InEffect() }) &&
		!slices.ContainsFunc(e.Problems, func(p page.ProblemInfo) bool { return p.Severity == "error" })
}

func (e explanation) write(w io.Writer, what string) error {
	var b sentences
	for _, a := range e.Live {
		if len(e.Problems) > 0 && a.State == page.LiveInvalid {
			a.Why = nil // the problems below tell more
		}
		describe(&b, what, a, len(e.Live) > 1)
	}
	switch a := e.Applies; {
	case a == nil:
	case a.Proxies == 0:
		b.line("it makes no difference for any connected proxy: %s", strings.Join(a.Why, "; "))
	default:
		b.line("it makes a difference for %s: %s", output.Number(a.Proxies, "proxy", "proxies"), whichOrWhy(*a))
	}
	b.line("")
	_, err := io.WriteString(w, b.String())
	return errors.Join(err, output.Problems(w, e.Problems))
}
