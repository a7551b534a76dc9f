package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairway/internal/agent/admin"
	"fairway/internal/agent/settings"
	"fairway/internal/agent/token"
)

// waiting is `pilot-agent wait`'s flags.
type waiting struct {
	timeout, request, period int
	url                      string
}

// waitCommand waits until the proxy is ready: it is the postStart hook of holdApplicationUntilProxyStarts.
func waitCommand() *cobra.Command {
	var w waiting
	c := &cobra.Command{
		Use:   "wait",
		Short: "Waits until the proxy is ready",
		Args:  noArguments("wait"),
		RunE:  func(c *cobra.Command, _ []string) error { return w.wait(c.Context()) },
	}
	s := c.Flags()
	s.IntVar(&w.timeout, "timeoutSeconds", 60, "how long to wait in all")
	s.IntVar(&w.request, "requestTimeoutMillis", 500, "how long one answer may take")
	s.IntVar(&w.period, "periodMillis", 500, "time between requests")
	s.StringVar(&w.url, "url", "http://localhost:15021/healthz/ready", "what to ask")
	return c
}

func (w waiting) wait(ctx context.Context) error {
	if w.timeout <= 0 || w.request <= 0 || w.period <= 0 {
		return settings.Usage("wait: times are positive numbers")
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(w.timeout)*time.Second)
	defer cancel()
	client := http.Client{Timeout: time.Duration(w.request) * time.Millisecond}
	tick := time.NewTicker(time.Duration(w.period) * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		err := isOK(ctx, &client, w.url)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err // the reason, not that time is up
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the proxy is not ready after %d seconds: %w", w.timeout, last)
		}
	}
}

func isOK(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1000)) // as much of the reasons as can be read
	return fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(body)))
}

// agentPages are the paths that `pilot-agent request` sends to the agent's status port; all others go to Envoy.
var agentPages = []string{"drain", "hot-restart", "healthz/ready", "debug/agent", "debug/bootstrap", "debug/dnsz", "debug/scopez"}

// requestCommand asks Envoy or the agent, in containers that have no curl: the preStop of native sidecars is `request POST /drain`.
func requestCommand() *cobra.Command {
	var port uint16
	var dir string
	c := &cobra.Command{
		Use:   "request METHOD PATH",
		Short: "Asks Envoy's administration, or the agent",
		Long: "Asks Envoy's administration, or for " + strings.Join(agentPages,
			", ") + " the agent. The answer is printed; an answer other than 200 is an error.\n\n" +
			"  pilot-agent request GET /clusters\n  pilot-agent request POST /drain          until no connection is " +
			"left: for a preStop hook\n  pilot-agent request POST /hot-restart",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return settings.Usage("request takes a method and a path, as: request GET /clusters")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return ask(c, dir, port, args[0], args[1]) },
	}
	c.Flags().Uint16Var(&port, "debug-port", 0, "port on localhost to ask (default 15020 for the agent, 15000 for Envoy)")
	c.Flags().StringVar(&dir, "configPath", settings.DefaultConfigDir,
		"the agent's folder; its token is sent if this user may read it")
	return c
}

func ask(c *cobra.Command, dir string, port uint16, method, path string) error {
	name, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "?")
	if port == 0 {
		port = 15000
		if slices.Contains(agentPages, name) {
			port = 15020
		}
	}
	shown, err := token.Read(filepath.Join(dir, token.File))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(c.ErrOrStderr(), "the request goes without the agent's token: %v\n", err)
	}
	client := admin.NewWithoutTimeout(fmt.Sprintf("localhost:%d", port)).WithToken(shown)
	status, body, err := client.Do(c.Context(), strings.ToUpper(method), path)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return &admin.StatusError{Path: path, Status: status, Body: string(body)}
	}
	_, err = c.OutOrStdout().Write(body)
	return err
}

func noArguments(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return settings.Usage("%s takes no arguments, not %q", name, args)
		}
		return nil
	}
}
