package truth

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairway/internal/accesslog"
	"fairway/internal/admin/page"
	"fairway/internal/ctl/output"
	"fairway/internal/ctl/truth/logline"
)

// logging holds the flags of explain that are about lines of an access log.
type logging struct {
	line, format, proxy string
}

func (l *logging) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&l.line, "log", "", "explain this line of an access log; -: the lines of standard input")
	f.StringVar(&l.format, "log-format", "", "format of the lines, as accessLogFormat of the mesh configuration has it; Envoy's default, "+
		"Istio's and JSON with their keys are known")
	f.StringVar(&l.proxy, "proxy", "", "proxy that wrote the lines, as NAME.NAMESPACE (default the one that has the line's addresses)")
}

// wanted reports whether the command is about a log.
func (l *logging) wanted() bool { return l.line != "" || l.format != "" }

func (l *logging) check(cmd *cobra.Command, args []string) error {
	switch {
	case l.line == "":
		return errors.New("--log-format is the format of a line: give one with --log")
	case len(args) > 0:
		return errors.New("--log takes the line as its value, in quotes: --log 'LINE'; no object or request is explained with it")
	case cmd.Flags().Changed("from") || cmd.Flags().Changed("source"):
		return errors.New("--from and --source are about a request that you write; a line has its own addresses")
	}
	return nil
}

// Bounds on standard input.
const (
	mostInput  = 8 << 20 // bytes of standard input
	mostKinds  = 50      // different results that are explained
	mostInputs = 20000   // lines
)

// loggedLines are the lines that are alike, and how many there are.
type loggedLines struct {
	entry accesslog.Entry
	count int
}

func (l *logging) run(cmd *cobra.Command, s Session, request *requesting) error {
	var given *accesslog.Format
	if l.format != "" {
		f, err := accesslog.NewFormat(l.format)
		if err != nil {
			return fmt.Errorf("--log-format: %w", err)
		}
		given = f
	}
	groups, others, more, err := l.read(cmd.InOrStdin(), given)
	if err != nil {
		return output.CannotSay(err)
	}
	defer s.Close()
	pages, missing := pagesOf(cmd.Context(), s)
	found := make([]logline.Explanation, len(groups))
	for i, g := range groups {
		found[i] = logline.Explain(cmd.Context(), pages, g.entry, logline.Options{
			Proxy: l.proxy, Trust: request.trust, Headers: request.headers,
		})
		found[i].Lines = g.count
		if missing != nil && found[i].Verdict != logline.Application {
			found[i].Notes = append(found[i].Notes, "no control plane was asked for objects: "+missing.Error())
		}
	}
	if err := show(cmd, s, found, func(w io.Writer) error { return writeLogged(w, found, others, more) }); err != nil {
		return output.CannotSay(err)
	}
	is := func(verdict string) bool {
		return slices.ContainsFunc(found, func(e logline.Explanation) bool { return e.Verdict == verdict })
	}
	switch {
	case is(logline.Unknown):
		return output.CannotSay(errors.New("the cause is not known"))
	case is(logline.Proxy):
		return output.Fail(errors.New("the proxy, not the application, ended the request"))
	}
	return nil
}

// read reads the line, or those of standard input; alike ones are one group. It returns how many lines are of no access log, and how many
// groups are left out.
func (l *logging) read(in io.Reader, given *accesslog.Format) (groups []loggedLines, others, more int, err error) {
	if l.line != "-" {
		e, err := accesslog.Parse(l.line, given)
		if err != nil {
			return nil, 0, 0, fmt.Errorf("--log: %w", err)
		}
		return []loggedLines{{e, 1}}, 0, 0, nil
	}
	lines := bufio.NewScanner(io.LimitReader(in, mostInput))
	lines.Buffer(nil, accesslog.MostLine+1)
	known := map[string]int{}
	for n := 0; lines.Scan() && n < mostInputs; n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		e, err := accesslog.Parse(lines.Text(), given)
		if err != nil {
			others++
			continue
		}
		key := e.Kind()
		at, is := known[key]
		switch {
		case is:
			groups[at].count++
		case len(groups) == mostKinds:
			more++
		default:
			known[key] = len(groups)
			groups = append(groups, loggedLines{e, 1})
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, 0, 0, fmt.Errorf("--log -: a line has more than %d bytes", accesslog.MostLine)
	case err != nil:
		return nil, 0, 0, fmt.Errorf("--log -: %w", err)
	case len(groups) == 0 && others == 0:
		return nil, 0, 0, errors.New("--log -: standard input has no line; pipe an access log into it")
	case len(groups) == 0:
		return nil, 0, 0, fmt.Errorf("--log -: none of %s is of an access log; of the first: %w", output.Plural(others, "line"),
			accesslog.ErrNone)
	}
	return groups, others, more, nil
}

// pagesOf returns the pages of the first control plane that has an answer, and the proxies of all of them; nil: none can be asked, and why.
func pagesOf(ctx context.Context, s Session) (*logline.Pages, error) {
	planes, err := s.Planes(ctx)
	if len(planes) == 0 {
		return nil, cmp.Or(err, errors.New("there is none"))
	}
	proxies, err := gathered(ctx, planes)
	if err != nil {
		return nil, err
	}
	return logline.NewPages(func(ctx context.Context, path string, query url.Values, into any) error {
		if list, ok := into.(*[]page.ProxySync); ok {
			*list = proxies
			return nil
		}
		var errs []error
		for _, c := range planes {
			err := c.Fetch(ctx, path, query, into)
			if err == nil {
				return nil
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}), nil
}

func writeLogged(w io.Writer, found []logline.Explanation, others, more int) error {
	var b sentences
	for i, e := range found {
		if i > 0 {
			b.line("")
		}
		b.WriteString(e.Text())
	}
	if more > 0 {
		b.line("\n%s with other results are not explained", output.Plural(more, "line"))
	}
	if others > 0 {
		b.line("\n%s of no access log", output.Number(others, "line is", "lines are"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
