package logging

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"fairway/internal/ctl/output"
	"fairway/internal/ctl/truth"
	"fairway/internal/levels"
	"fairway/internal/printable"
)

// Path is the page of levels, of control planes and agents alike.
const Path = "/debug/scopez"

// Session reaches control planes and agents.
type Session interface {
	truth.Session
	// Proxy returns the name of a proxy that control planes know, of what a user typed and of --namespace.
	Proxy(ctx context.Context, typed, namespace string) (string, error)
	// Agent reaches the agent of a proxy. The error says why it cannot be reached from here.
	Agent(ctx context.Context, proxy string) (Agent, error)
}

// Agent is the agent of a proxy.
type Agent interface {
	// Request asks for a page. It shows the agent's token if the method changes something.
	Request(ctx context.Context, method, path string) ([]byte, error)
}

// verb has the flags.
type verb struct {
	session          Session
	level, namespace string
	reset            bool
}

// Command returns the verb admin with log below it.
func Command(s Session) *cobra.Command {
	root := &cobra.Command{Use: "admin", Aliases: []string{"adm"}, Short: "Settings of running control planes and agents"}
	v := &verb{session: s}
	cmd := &cobra.Command{
		Use: "log [CONTROL PLANE | PROXY]", Aliases: []string{"l"}, Args: cobra.MaximumNArgs(1),
		Short: "How much control planes or an agent log, and changes of that while they run",
		Long: "Shows the scopes of the log and their levels: of all control planes, of one (the name of its pod), or of a proxy's agent. " +
			"Levels are debug, info, warn, error and none. They hold until the program ends or --reset.\n\n" +
			"  pilotctl admin log\n" +
			"  pilotctl admin log --level kube:debug,ads:warn\n" +
			"  pilotctl admin log web-1.shop --level debug      # all scopes of its agent\n" +
			"  pilotctl admin log --reset\n\n" +
			"Levels of Envoy are those of pilotctl proxy-config log.",
		RunE: func(cmd *cobra.Command, args []string) error {
			defer s.Close()
			if err := v.run(cmd, args); err != nil {
				return output.Fail(err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&v.level, "level", "", "levels to set: LEVEL for all scopes, or SCOPE:LEVEL, with commas between several")
	cmd.Flags().BoolVarP(&v.reset, "reset", "r", false, "set the levels that the program started with, before those of --level")
	cmd.Flags().StringVarP(&v.namespace, "namespace", "n", "", "namespace of a proxy that names none")
	root.AddCommand(cmd)
	return root
}

// scope is a row of the answer.
type scope struct {
	Of string `json:"of,omitempty"` // the control plane or agent
	levels.Shown
}

func (v *verb) run(cmd *cobra.Command, args []string) error {
	all, err := v.asked(cmd.Context(), args)
	if len(all) == 0 && err != nil {
		return err
	}
	several := false
	for _, s := range all {
		several = several || s.Of != all[0].Of
	}
	sh := output.Sheet{Header: []string{"ACTIVE SCOPE", "DESCRIPTION", "LOG LEVEL"}, Value: all, Wide: true}
	if several {
		sh.Header = append([]string{"CONTROL PLANE"}, sh.Header...)
	}
	for _, s := range all {
		row := []string{s.Name, s.Description, s.OutputLevel}
		if several {
			row = append([]string{s.Of}, row...)
		}
		sh.Rows = append(sh.Rows, row)
	}
	return errors.Join(sh.Write(cmd.OutOrStdout(), v.session.Format()), err)
}

// query is the change that the flags ask for; nil: none.
func (v *verb) query() url.Values {
	if v.level == "" && !v.reset {
		return nil
	}
	out := url.Values{}
	if v.level != "" {
		out.Set("level", v.level)
	}
	if v.reset {
		out.Set("reset", "true")
	}
	return out
}

// asked returns the scopes of all that the arguments name.
func (v *verb) asked(ctx context.Context, args []string) ([]scope, error) {
	if len(args) == 0 {
		planes, err := v.session.Planes(ctx)
		scopes, failed := v.ofPlanes(ctx, planes)
		return scopes, errors.Join(err, failed)
	}
	planes, err := v.session.Planes(ctx)
	for _, p := range planes {
		if name := p.Called(); args[0] == name || strings.TrimPrefix(args[0], "pod/") == name || strings.HasPrefix(args[0], name+".") {
			return v.ofPlanes(ctx, []truth.Plane{p})
		}
	}
	if len(planes) == 0 {
		return nil, err
	}
	return v.ofAgent(ctx, args[0])
}

func (v *verb) ofPlanes(ctx context.Context, planes []truth.Plane) (out []scope, err error) {
	for _, p := range planes {
		var some []levels.Shown
		var failed error
		if change := v.query(); change != nil {
			failed = p.Change(ctx, Path, change, &some)
		} else {
			failed = p.Fetch(ctx, Path, nil, &some)
		}
		err = errors.Join(err, failed)
		out = append(out, of(p.Called(), some)...)
	}
	return out, err
}

func (v *verb) ofAgent(ctx context.Context, typed string) ([]scope, error) {
	proxy, err := v.session.Proxy(ctx, typed, v.namespace)
	if err != nil {
		return nil, err
	}
	agent, err := v.session.Agent(ctx, proxy)
	if err != nil {
		return nil, err
	}
	method, path := "GET", Path
	if change := v.query(); change != nil {
		method, path = "POST", Path+"?"+change.Encode()
	}
	body, err := agent.Request(ctx, method, path)
	if err != nil {
		return nil, err
	}
	var found []levels.Shown
	if err := json.Unmarshal(body, &found); err != nil {
		return nil, fmt.Errorf("read the levels of the agent of %s: %w; is it of this version?",
			printable.Text(proxy, printable.Short), err)
	}
	return of(proxy, found), nil
}

func of(name string, some []levels.Shown) (out []scope) {
	for _, s := range some {
		out = append(out, scope{name, s})
	}
	return out
}
