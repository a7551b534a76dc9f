package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"fairway/internal/app"
	"fairway/internal/config"
	"fairway/internal/dev/folder"
	"fairway/internal/levels"
	"fairway/internal/mesh"
	"fairway/internal/source/memory"
)

// trustDomain is the one of all identities here.
const trustDomain = "cluster.local"

// Options of a control plane for one user.
type Options struct {
	Rules      string // folder
	MeshConfig string // file; empty: the defaults
	Folder     folder.Folder
	Levels     *levels.Levels
	Out, Log   io.Writer
}

// Command is `pilot-discovery dev`.
func Command() *cobra.Command {
	o := Options{Folder: folder.Default()}
	var level string
	c := &cobra.Command{
		Use:   "dev",
		Short: "A mesh on this machine: everything on loopback, rules from a folder",
		Long: "Serves the rules of a folder to workloads of this user that join with `pilot-agent run`, and prints every problem of the " +
			"rules as it comes and goes. Certificates are from a root of its own. Nothing listens but on loopback, and nothing needs root.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Levels, err = levels.New(level, levels.Control()); err != nil {
				return err
			}
			o.Out, o.Log = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return Run(cmd.Context(), o)
		},
	}
	c.Flags().StringVar(&o.Rules, "configDir", ".", "folder of rules (YAML or JSON), read and watched with its subfolders")
	c.Flags().StringVar(&o.MeshConfig, "meshConfig", "",
		"file with the mesh configuration, read again when it changes; it needs defaultConfig.proxyMetadata: "+
			"{FAIRWAY_ALLOW_LOCAL_ENDPOINTS: default, FAIRWAY_SECRET_SERVICE_ACCOUNTS: default/*}")
	c.Flags().StringVar(&level, "log_output_level", "warn", "level of the control plane's own log: debug, info, warn, error or none")
	return c
}

// Run serves until ctx ends.
func Run(ctx context.Context, o Options) error {
	info, err := os.Stat(o.Rules)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is a file; want the folder that it is in", o.Rules)
	}
	if err != nil {
		return fmt.Errorf("--configDir: %w", err)
	}
	socket, release, err := o.Folder.Open()
	if err != nil {
		return err
	}
	defer release()
	defer socket.Close()
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		return err
	}
	if o.MeshConfig == "" {
		if o.MeshConfig, err = o.Folder.Write("mesh.yaml", meshConfig); err != nil {
			return err
		}
	}
	opts, err := o.discovery()
	if err != nil {
		return err
	}
	members := memory.New("joined")
	d, err := app.NewDiscovery(opts, members)
	if err != nil {
		return err
	}
	c := &console{out: o.Out}
	leaving, leave := context.WithCancel(ctx)
	defer leave()
	j := newJoins(plane{
		xds: d.SecureAddr(), roots: d.Authority().Roots, token: d.JoinTokens().Create, settled: d.Settled,
	}, members, decoder)
	j.say, j.leaving, j.file = c.say, leaving, filepath.Join(string(o.Folder), "members.json")
	rules, err := filepath.Abs(o.Rules)
	if err == nil {
		err = o.Folder.Announce(folder.Plane{PID: os.Getpid(), XDS: d.SecureAddr(), Pages: d.HTTPAddr(), Rules: rules})
	}
	if err != nil {
		return err
	}
	c.welcome(o.Rules, d.HTTPAddr())
	j.restore()
	mux := http.NewServeMux()
	mux.Handle("POST "+folder.Path, j)
	door := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(opts.Log.Handler(), slog.LevelWarn)}
	var g errgroup.Group
	g.Go(func() error {
		if err := door.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	g.Go(func() error { c.follow(leaving, d); return nil })
	err = d.Run(ctx)
	leave()
	door.Close()
	return errors.Join(err, g.Wait())
}

// linger is how long a proxy counts after its last stream ended.
const linger = 500 * time.Millisecond

// meshConfig is the mesh configuration unless a flag names another. All endpoints are on loopback.
const meshConfig = `defaultConfig:
  proxyMetadata:
    FAIRWAY_ALLOW_LOCAL_ENDPOINTS: default
    FAIRWAY_SECRET_SERVICE_ACCOUNTS: "default/*"
`

// discovery returns the options of the control plane.
func (o Options) discovery() (out app.Options, err error) {
	out = app.DefaultOptions()
	out.ConfigDir, out.MeshConfig = o.Rules, o.MeshConfig
	out.Registries, out.Networks, out.RegistriesFile = nil, "", ""
	out.GRPCAddr, out.MonitorAddr, out.InjectFolder = "", "", ""
	if out.SecureAddr, err = here(15012); err != nil {
		return out, err
	}
	if out.HTTPAddr, err = here(15014); err != nil {
		return out, err
	}
	out.Identity.TrustDomain = trustDomain
	out.Identity.CA.Plugged, out.Identity.CA.State = "", o.Folder.Authority()
	out.ClusterDir, out.Shutdown = filepath.Join(string(o.Folder), "state"), 0
	// A workload that ends, however, is gone at once.
	out.ProxyLinger, out.HealthGrace, out.HealthStart = linger, 0, 2*time.Second
	out.Levels, out.Log = o.Levels, o.Levels.Log(o.Log, false)
	return out, nil
}

// here returns a free address of loopback, with the wanted port if it can.
func here(wanted uint16) (string, error) {
	port, err := folder.FreePort("127.0.0.1", wanted)
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(port)), err
}

// console prints what happens, for the user who looks at the terminal.
type console struct {
	out io.Writer
	mu  sync.Mutex
}

func (c *console) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.out, format+"\n", args...)
}

func (c *console) welcome(rules, pages string) {
	c.say("A mesh on this machine. Rules: %s. Ctrl-C ends it.", rules)
	c.say("  pilot-agent run --name web --port 8080 -- ./my-app    an application joins as http://web")
	c.say("  pilot-agent run --gateway                             a gateway, for the Gateways of istio: ingressgateway")
	c.say("  pilotctl problems, explain, plan, proxy-status ...    find this control plane by themselves (http://%s)", pages)
}

// follow prints the problems that come and go, after each turn, until ctx ends.
func (c *console) follow(ctx context.Context, d *app.Discovery) {
	select {
	case <-d.Synced():
	case <-ctx.Done():
		return
	}
	shown := map[string]bool{}
	for {
		last := d.LastTurn().Version
		now := map[string]bool{}
		for _, p := range d.Problems() {
			if p.Severity == mesh.Info {
				continue
			}
			text := p.String()
			if now[text] = true; !shown[text] {
				c.say("%s", text)
			}
		}
		for text := range shown {
			if !now[text] {
				c.say("mended: %s", text)
			}
		}
		shown = now
		if d.AfterTurn(ctx, last) != nil {
			return
		}
	}
}
