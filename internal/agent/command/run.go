package command

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"fairway/internal/agent/early"
	"fairway/internal/agent/run"
	"fairway/internal/agent/settings"
	"fairway/internal/dev/folder"
	"fairway/internal/levels"
)

// ApplicationError says that an application has ended with a code, which is pilot-agent's too.
type ApplicationError struct{ Code int }

func (e *ApplicationError) Error() string {
	return "the application has ended with code " + strconv.Itoa(e.Code)
}

// running are `pilot-agent run`'s flags.
type running struct {
	name, protocol, envoy, level string
	port                         uint16
	gateway                      bool
	labels, upstreams            []string
}

func runCommand(stdout, stderr io.Writer) *cobra.Command {
	var f running
	c := &cobra.Command{
		Use:   "run [flags] -- PROGRAM [ARGUMENT]...",
		Short: "Runs an application in the mesh of pilot-discovery dev, with an Envoy beside it",
		Long: "Runs an application in the mesh of pilot-discovery dev, with an Envoy beside it. It needs no root, and intercepts " +
			"nothing.\n\n" +
			"Other workloads reach the application by --name, as http://web. Its variables are PORT, where it must listen on " +
			"127.0.0.1,\nand HTTP_PROXY, its Envoy, through which it reaches others by their names. Ctrl-C ends it without losing a " +
			"request.\nSeveral may have one name: they are instances of one service, and labels distinguish them (--label version=v2).",
		RunE: func(c *cobra.Command, args []string) error {
			o, err := f.options(args)
			if err != nil {
				return err
			}
			o.Stdout, o.Stderr = stdout, stderr
			signals, stop := early.Signals()
			defer stop()
			code, err := run.Run(c.Context(), o, signals)
			if err == nil && code != 0 {
				err = &ApplicationError{code}
			}
			return err
		},
	}
	s := c.Flags()
	s.StringVar(&f.name, "name", "", "name of the service, and of the service account (default: the program's, or ingress)")
	s.Uint16Var(&f.port, "port", 0,
		"port of 127.0.0.1 where the application listens (default: one that is free, which it reads from PORT)")
	s.StringVar(&f.protocol, "protocol", "http", "what it speaks there: http, http2, grpc, tcp, ...")
	s.StringSliceVar(&f.labels, "label", nil, "label of the workload, as version=v1; may be repeated")
	s.StringSliceVar(&f.upstreams, "upstream", nil,
		"port of 127.0.0.1 that leads to a host, for clients that use no HTTP proxy: db=5432 (TCP), or reviews=9081/http; may be repeated")
	s.BoolVar(&f.gateway, "gateway", false, "run a gateway in place of an application: the Gateways with selector istio: ingressgateway")
	s.StringVar(&f.envoy, "envoy", "", "Envoy's binary (default $ENVOY, else envoy in PATH)")
	s.StringVar(&f.level, "log_output_level", "error", "the agent's own log level: debug, info, warn, error or none")
	return c
}

func (f running) options(args []string) (o run.Options, err error) {
	if o.Levels, err = levels.New(f.level, levels.Agent()); err != nil {
		return o, &settings.UsageError{Err: err}
	}
	o.Command, o.Folder = args, folder.Default()
	if o.Envoy = f.envoy; o.Envoy == "" {
		o.Envoy = os.Getenv("ENVOY")
	}
	o.Workload = folder.Workload{Name: f.name, Gateway: f.gateway}
	switch {
	case f.gateway && len(args) > 0:
		return o, settings.Usage("run --gateway takes no program: %q is not started", args[0])
	case f.gateway && (f.port != 0 || len(f.upstreams) > 0):
		return o, settings.Usage("run --gateway: the ports of a gateway are those of Gateway objects; leave --port and --upstream out")
	case !f.gateway && len(args) == 0:
		return o, settings.Usage("run: which program? Write it behind --, as pilot-agent run --name web --port 8080 -- ./my-app")
	}
	if o.Workload.Labels, err = labelsOf(f.labels); err != nil {
		return o, err
	}
	if f.gateway {
		if f.name == "" {
			o.Workload.Name = "ingress"
		}
		return o, nil
	}
	if f.name == "" {
		o.Workload.Name = nameOf(args[0])
	}
	o.Workload.Protocol = strings.ToUpper(f.protocol)
	if o.Workload.Port = f.port; f.port == 0 {
		if o.Workload.Port, err = folder.FreePort("127.0.0.1", 0); err != nil {
			return o, err
		}
	}
	o.Workload.Upstreams, err = upstreamsOf(f.upstreams)
	return o, err
}

// unfit are the characters that names do not have.
var unfit = regexp.MustCompile(`[^a-z0-9]+`)

// nameOf makes a service's name out of a program's path.
func nameOf(program string) string {
	return strings.Trim(unfit.ReplaceAllString(strings.ToLower(filepath.Base(program)), "-"), "-")
}

func labelsOf(list []string) (map[string]string, error) {
	out := map[string]string{}
	for _, l := range list {
		key, value, has := strings.Cut(l, "=")
		if !has || key == "" {
			return nil, settings.Usage("--label %q: want key=value, as version=v1", l)
		}
		out[key] = value
	}
	return out, nil
}

func upstreamsOf(list []string) (out []folder.Upstream, err error) {
	for _, l := range list {
		host, rest, has := strings.Cut(l, "=")
		port, protocol, _ := strings.Cut(rest, "/")
		number, err := strconv.ParseUint(port, 10, 16)
		if !has || host == "" || err != nil || number == 0 {
			return nil, settings.Usage("--upstream %q: want host=port, as db=5432, or host=port/protocol, as reviews=9081/http", l)
		}
		if protocol == "" {
			protocol = "tcp"
		}
		out = append(out, folder.Upstream{Host: host, Port: uint16(number), Protocol: strings.ToUpper(protocol)})
	}
	return out, nil
}
