package proxyconfig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairway/internal/ctl/output"
	"fairway/internal/printable"
)

// everything shows all tables, or all of the dump.
func everything(s Session) *cobra.Command {
	v := &verb{session: s}
	cmd := &cobra.Command{
		Use: "all PROXY", Aliases: []string{"a"},
		Short: "All that a proxy has: each of the other tables, or with -o json Envoy's config_dump",
		RunE: s.Run(func(cmd *cobra.Command, args []string) error {
			from, err := v.source(cmd.Context(), args)
			if err != nil {
				return err
			}
			if s.Format() != "table" {
				whole, err := from.whole(cmd.Context())
				if err != nil {
					return err
				}
				return output.WriteValue(cmd.OutOrStdout(), s.Format(), whole)
			}
			sheets := []output.Sheet{}
			for _, t := range tables() {
				sh, err := t.sheet(cmd.Context(), from, &v.filter)
				if err != nil {
					return err
				}
				sheets = append(sheets, sh)
			}
			v.sent = true
			sh, err := v.endpointSheet(cmd.Context(), args)
			if err != nil {
				return err
			}
			return showAll(cmd, append(sheets, sh))
		}),
	}
	v.bind(cmd)
	v.filter.bind(cmd.Flags(), s.SetAddress, "name", "port")
	return cmd
}

// showAll prints the tables that have rows, with a line between them.
func showAll(cmd *cobra.Command, sheets []output.Sheet) error {
	shown := 0
	for _, sh := range sheets {
		if len(sh.Rows) == 0 {
			continue
		}
		if shown++; shown > 1 {
			fmt.Fprintln(cmd.OutOrStdout())
		}
		if err := sh.Write(cmd.OutOrStdout(), "table"); err != nil {
			return err
		}
	}
	if shown == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "nothing of this kind")
		return err
	}
	return nil
}

// envoy returns the administration of the Envoy that the command line names.
func (v *verb) envoy(ctx context.Context, args []string) (Envoy, error) {
	if v.admin != "" {
		return v.session.EnvoyAt(v.admin), nil
	}
	proxy, err := v.session.Proxy(ctx, args[0], v.namespace)
	if err != nil {
		return nil, err
	}
	return v.session.Envoy(ctx, proxy)
}

// bootstrap shows what Envoy was started with, which only Envoy has.
func bootstrap(s Session) *cobra.Command {
	v := &verb{session: s}
	cmd := &cobra.Command{
		Use: "bootstrap PROXY", Aliases: []string{"b"}, Short: "The bootstrap of a proxy's Envoy; -o json prints all fields",
		RunE: s.Run(func(cmd *cobra.Command, args []string) error {
			d, err := v.ownDump(cmd.Context(), args)
			if err != nil {
				return err
			}
			boot := d.bootstrap()
			if boot == nil {
				return errors.New("there is no bootstrap in this config_dump: want one that an Envoy wrote; a control plane's has none")
			}
			sh := output.Sheet{Header: []string{"FIELD", "VALUE"}, Value: map[string]any{"bootstrap": boot}, Wide: true}
			sh.Rows = bootstrapRows(boot)
			return sh.Write(cmd.OutOrStdout(), s.Format())
		}),
	}
	v.bind(cmd)
	return cmd
}

// ownDump returns the dump of a file, or of Envoy itself.
func (v *verb) ownDump(ctx context.Context, args []string) (dump, error) {
	if v.file != "" {
		from, err := v.source(ctx, nil)
		d, _ := from.(dump)
		return d, err
	}
	envoy, err := v.envoy(ctx, args)
	if err != nil {
		return dump{}, fmt.Errorf("only Envoy has its bootstrap: %w", err)
	}
	return fetchDump(ctx, envoy)
}

// bootstrapRows are the fields that users look for first.
func bootstrapRows(boot map[string]any) (rows [][]string) {
	add := func(field, value string) {
		if value != "" {
			rows = append(rows, []string{field, value})
		}
	}
	node := object(boot, "node")
	add("node id", text(node, "id"))
	add("node cluster", text(node, "cluster"))
	metadata := object(node, "metadata")
	for _, field := range []string{"NAMESPACE", "CLUSTER_ID", "MESH_ID", "NETWORK", "ISTIO_VERSION", "PILOT_SAN"} {
		add("node metadata "+field, text(metadata, field))
	}
	number := object(node, "userAgentBuildVersion", "version")
	if number != nil {
		add("envoy", fmt.Sprintf("%v.%v.%v", orZero(number["majorNumber"]), orZero(number["minorNumber"]), orZero(number["patch"])))
	}
	add("administration", address(object(boot, "admin", "address")))
	var clusters []string
	for _, c := range objects(object(boot, "staticResources"), "clusters") {
		clusters = append(clusters, text(c, "name"))
	}
	add("static clusters", strings.Join(clusters, ", "))
	var listeners []string
	for _, l := range objects(object(boot, "staticResources"), "listeners") {
		listeners = append(listeners, text(l, "name"))
	}
	add("static listeners", strings.Join(listeners, ", "))
	return rows
}

func orZero(n any) any {
	if n == nil {
		return 0
	}
	return n
}

// logged holds the flags of log.
type logged struct {
	verb
	level string
	reset bool
}

// levels shows how much Envoy logs, and changes that.
func levels(s Session) *cobra.Command {
	l := &logged{verb: verb{session: s}}
	cmd := &cobra.Command{
		Use: "log PROXY", Aliases: []string{"o"}, Short: "How much a proxy's Envoy logs",
		Long: "Shows the levels that a proxy's Envoy was started with. With --level or --reset it changes them while Envoy runs, and " +
			"shows those of all its loggers. Only the proxy's agent may do that: in a cluster its program is run in the pod, for which " +
			"you need the right to create pods/exec. On another machine, ask the agent there:\n\n" +
			"  pilotctl proxy-config log web-1.shop --level http:debug,rbac:debug\n" +
			"  pilotctl proxy-config log web-1.shop --reset\n" +
			"  pilot-agent request POST 'logging?level=debug'",
		PreRunE: func(*cobra.Command, []string) error {
			switch {
			case (l.level != "" || l.reset) && l.admin != "":
				return errors.New("--admin: only the proxy's agent may change levels: " +
					"run pilot-agent request POST 'logging?level=debug' on its machine")
			case l.file != "":
				return errors.New("--file: a config_dump has no levels; name a proxy, or --admin")
			}
			_, err := loggingPaths(l.level, l.reset)
			return err
		},
		RunE: s.Run(func(cmd *cobra.Command, args []string) error {
			if l.level != "" || l.reset {
				return l.change(cmd, args)
			}
			envoy, err := l.envoy(cmd.Context(), args)
			if err != nil {
				return fmt.Errorf("only Envoy knows its levels: %w", err)
			}
			raw, err := envoy.Page(cmd.Context(), "/server_info")
			if err != nil {
				return err
			}
			info, err := parse(raw)
			if err != nil {
				return fmt.Errorf("/server_info: %w", err)
			}
			sh := levelSheet(object(info, "commandLineOptions"))
			return sh.Write(cmd.OutOrStdout(), s.Format())
		}),
	}
	l.bind(cmd)
	cmd.Flags().StringVar(&l.level, "level", "", "levels to set: LEVEL for all loggers, or LOGGER:LEVEL, with commas between several")
	cmd.Flags().BoolVarP(&l.reset, "reset", "r", false, "set all loggers to warning, before those of --level")
	return cmd
}

// envoyLevels are the levels that Envoy knows.
var envoyLevels = []string{"trace", "debug", "info", "warning", "error", "critical", "off"}

// mostLoggers bounds a list of levels.
const mostLoggers = 200

// loggingPaths returns the pages of Envoy's administration that make a change, in order.
func loggingPaths(list string, reset bool) (out []string, err error) {
	if reset {
		out = append(out, "/logging?level=warning")
	}
	if list == "" {
		return out, nil
	}
	var some []string
	parts := strings.Split(list, ",")
	if len(parts) > mostLoggers {
		return nil, fmt.Errorf("--level: want at most %d loggers", mostLoggers)
	}
	for _, p := range parts {
		logger, level, named := strings.Cut(strings.TrimSpace(p), ":")
		if !named {
			logger, level = "", logger
		}
		if level == "warn" || level == "none" {
			level = map[string]string{"warn": "warning", "none": "off"}[level]
		}
		if !slices.Contains(envoyLevels, level) || named && !wordOf(logger) {
			return nil, fmt.Errorf("--level %s: want LEVEL or LOGGER:LEVEL, a level is one of %s", printable.Text(p, printable.Short),
				strings.Join(envoyLevels, ", "))
		}
		if !named || logger == "all" {
			out = append(out, "/logging?level="+level)
			continue
		}
		some = append(some, logger+":"+level)
	}
	if len(some) > 0 {
		out = append(out, "/logging?paths="+strings.Join(some, ","))
	}
	return out, nil
}

// wordOf reports whether a text can be a logger's name.
func wordOf(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == ""
}

// change changes the levels through the agent.
func (l *logged) change(cmd *cobra.Command, args []string) error {
	proxy, err := l.session.Proxy(cmd.Context(), args[0], l.namespace)
	if err != nil {
		return err
	}
	agent, err := l.session.Agent(cmd.Context(), proxy)
	if err != nil {
		return err
	}
	paths, err := loggingPaths(l.level, l.reset)
	var answer []byte
	for _, path := range paths {
		if answer, err = agent.Request(cmd.Context(), "POST", path); err != nil {
			return err
		}
	}
	value := map[string]string{}
	sh := output.Sheet{Header: []string{"LOGGER", "LEVEL"}, Value: value}
	for line := range strings.Lines(string(answer)) {
		if logger, level, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(level) != "" {
			logger, level = strings.TrimSpace(logger), strings.TrimSpace(level)
			value[logger] = level
			sh.Rows = append(sh.Rows, []string{logger, level})
		}
	}
	return errors.Join(err, sh.Write(cmd.OutOrStdout(), l.session.Format()))
}

func levelSheet(options map[string]any) output.Sheet {
	value := map[string]string{}
	sh := output.Sheet{Header: []string{"COMPONENT", "LEVEL"}, Value: value, Rows: [][]string{{"all others", text(options, "logLevel")}}}
	value["*"] = text(options, "logLevel")
	for _, part := range strings.Split(text(options, "componentLogLevel"), ",") {
		if component, level, ok := strings.Cut(part, ":"); ok {
			sh.Rows = append(sh.Rows, []string{component, level})
			value[component] = level
		}
	}
	return sh
}
