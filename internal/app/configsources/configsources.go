package configsources

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"

	"fairway/internal/app/lasting"
	"fairway/internal/app/pushed"
	"fairway/internal/app/secure"
	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/disk"
	"fairway/internal/source"
	"fairway/internal/source/file"
	"fairway/internal/source/mcp/dial"
	"fairway/internal/source/mcpxds"
	"fairway/internal/source/shards"
	"fairway/internal/table"
)

// Options of ConfigSources. Secure alone may be nil.
type Options struct {
	MeshConfig string // file of the mesh configuration: the start waits for the sources that it names then; need not exist
	Namespace  string // the root namespace
	Plaintext  bool   // others may push in plaintext: there is an address without TLS
	Dir        string // folder for the last rows of sources; empty: none
	Wait       time.Duration
	Decoder    *config.Decoder
	Shards     *shards.Set
	Secure     *secure.Server // nil: no caller can be authenticated
	Pushes     *pushed.Entries
	Log        *slog.Logger
}

// ConfigSources is the source that starts and ends those which the mesh configuration in force names. Those that it names at the start
// are waited for, as all sources are, for no longer than Options.Wait.
type ConfigSources struct {
	o       Options
	sources *lasting.Sources
	first   []config.ConfigSource      // of the file of the mesh configuration, as it was at the start
	wanted  chan []config.ConfigSource // holds the newest that is to be done
}

var _ source.Source = (*ConfigSources)(nil)

// New reads the file of the mesh configuration, for the sources that it names.
func New(o Options) *ConfigSources {
	c := &ConfigSources{
		o: o, wanted: make(chan []config.ConfigSource, 1),
		sources: lasting.New(o.Shards, lasting.Files{Dir: o.Dir, Suffix: ".configsource.json", Rules: o.Decoder}, o.Log),
	}
	if o.MeshConfig == "" {
		return c
	}
	if text, _, err := disk.Read(disk.OS, o.MeshConfig, disk.MaxFile); err == nil {
		for _, doc := range config.Split(o.MeshConfig, text) {
			if o, _ := o.Decoder.DecodeMeshConfig(doc); o != nil {
				c.first = sourcesOf(o)
			}
		}
	}
	return c
}

// RunSources looks after the sources that are named, and ends them when ctx ends.
func (c *ConfigSources) RunSources(ctx context.Context) error { return c.sources.Run(ctx) }

// sourcesOf lists the sources that a mesh configuration names; nil: there is none.
func sourcesOf(o *config.Object) []config.ConfigSource {
	if o == nil {
		return nil
	}
	out, _ := config.ConfigSourcesOf(config.Spec[*meshconfig.MeshConfig](o))
	return out
}

// Follow applies the turn's changes of the mesh configuration. The owner of the turns calls it.
func (c *ConfigSources) Follow(of *input.Objects) {
	for change := range table.Changes(of) {
		if change.Key.Kind != config.MeshConfig {
			continue
		}
		var now *config.Object
		if change.Has {
			now = change.New
		}
		select {
		case <-c.wanted: // it is out of date
		default:
		}
		c.wanted <- sourcesOf(now)
	}
}

// Name implements source.Source.
func (c *ConfigSources) Name() string { return "configSources" }

// Run follows the sources in the mesh configuration until ctx ends. It hands in nothing itself.
func (c *ConfigSources) Run(ctx context.Context, sink source.Sink) error {
	c.set(c.first)
	c.o.Pushes.Ready()
	sink.Apply(source.Update{Synced: true})
	for {
		select {
		case now := <-c.wanted:
			c.set(now)
		case <-ctx.Done():
			return nil
		}
	}
}

// set says which sources there are from now on.
func (c *ConfigSources) set(now []config.ConfigSource) {
	var specs []lasting.Spec
	for _, s := range now {
		if s.Scheme == config.ClusterScheme {
			continue // the own cluster is read wherever there is one
		}
		specs = append(specs, lasting.Spec{
			Name: s.Name(), Sum: sumOf(s), Wait: c.o.Wait,
			Make: func() (source.Source, func(), error) {
				if s.Scheme == config.PushScheme {
					return c.await(s)
				}
				made, err := c.open(s)
				return made, nil, err
			},
		})
	}
	for _, name := range c.sources.Set(specs) {
		c.o.Log.Info("a config source is read no more: the mesh configuration does not name it", "source", name)
	}
}

// sumOf tells one way of reading a source from another.
func sumOf(s config.ConfigSource) [32]byte {
	said, err := proto.MarshalOptions{Deterministic: true}.Marshal(s.TLS)
	return sha256.Sum256(fmt.Appendf(said, "%s %t %v", s.Name(), s.Services, err))
}

// open makes the source of an entry.
func (c *ConfigSources) open(s config.ConfigSource) (source.Source, error) {
	switch s.Scheme {
	case config.FolderScheme:
		return file.New(file.Options{Name: s.Name(), Dirs: []string{s.Place}, Decoder: c.o.Decoder, Log: c.o.Log})
	case config.XDSScheme, config.MCPScheme:
		how, err := c.dial(s)
		if err != nil {
			return nil, err
		}
		return mcpxds.New(s.Name(), mcpxds.Options{
			Options: how, MCP: s.Scheme == config.MCPScheme, Services: s.Services, Namespace: c.o.Namespace,
		}, c.o.Decoder, c.o.Log)
	}
	return nil, fmt.Errorf("%s:// is not a scheme that is read", s.Scheme)
}

// await makes the source of an entry that waits for the other side to connect. The other side may connect until ended is called.
func (c *ConfigSources) await(s config.ConfigSource) (made source.Source, ended func(), err error) {
	who := pushed.Entry{Name: s.Name(), Callers: s.TLS.GetSubjectAltNames()}
	switch authorities := s.TLS.GetCaCertificates(); {
	case s.TLS.GetMode() == networking.ClientTLSSettings_DISABLE:
		if who.Here = true; !c.o.Plaintext {
			return nil, nil, errors.New("no client can push in plaintext: --grpcAddr is not set")
		}
	case c.o.Secure == nil:
		return nil, nil, errors.New("no client can push: --secureGRPCAddr is not set")
	case authorities != "":
		who.Roots = func() (*x509.CertPool, error) { return secure.ReadRoots(authorities) }
		if _, err := who.Roots(); err != nil {
			return nil, nil, fmt.Errorf("tlsSettings.caCertificates: %w", err)
		}
	}
	p, err := mcpxds.NewPushed(s.Name(), mcpxds.Options{Services: s.Services}, c.o.Decoder, c.o.Log)
	if err != nil {
		return nil, nil, err
	}
	who.Serve = p.Serve
	return p, c.o.Pushes.Add(who), nil
}

// dial is how the server of an entry is called. Without settings it is in plaintext, as Istio's control plane does.
func (c *ConfigSources) dial(s config.ConfigSource) (dial.Options, error) {
	t := s.TLS
	out := dial.Options{Address: s.Place}
	switch t.GetMode() {
	case networking.ClientTLSSettings_DISABLE:
		out.Plaintext = true
		return out, nil
	case networking.ClientTLSSettings_ISTIO_MUTUAL:
		out.Mesh = c.o.Secure.Own
		out.ServerName = secure.ServerNames(c.o.Namespace, "")[0]
	case networking.ClientTLSSettings_MUTUAL:
		out.CertFile, out.KeyFile = t.GetClientCertificate(), t.GetPrivateKey()
		fallthrough
	default:
		out.CAFile = t.GetCaCertificates()
	}
	if t.GetSni() != "" {
		out.ServerName = t.GetSni()
	}
	out.SubjectAltNames = t.GetSubjectAltNames()
	out.InsecureSkipVerify = t.GetInsecureSkipVerify().GetValue()
	return out, out.Validate()
}
