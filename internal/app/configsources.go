package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"

	"fairway/internal/app/secure"
	"fairway/internal/compile"
	"fairway/internal/config"
	"fairway/internal/disk"
	"fairway/internal/source"
	"fairway/internal/source/file"
	"fairway/internal/source/mcp/dial"
	"fairway/internal/source/mcpxds"
	"fairway/internal/source/shards"
	"fairway/internal/table"
)

// configSources are those that the mesh configuration in force names: a source each, which comes and goes with its entry. Those that it
// names at the start are waited for, as all sources are, for no longer than ClusterWait.
type configSources struct {
	opts    Options
	decoder *config.Decoder
	shards  *shards.Set
	secure  *secure.Server
	log     *slog.Logger

	wanted chan []config.ConfigSource // holds the newest that is to be done; only the loop and run use it

	mu      sync.Mutex
	running map[string]*configSourceRun // by name
	refused map[string]string           // entries that cannot be read, with the reason, by name
}

// configSourceRun is one that is read.
type configSourceRun struct {
	config.ConfigSource
	source source.Source
	sink   source.Sink
	stop   context.CancelFunc
	done   chan struct{} // closed once its source has ended; nil: it has not begun
}

// newConfigSources joins those that the file of the mesh configuration names.
func newConfigSources(opts Options, d *config.Decoder, all *shards.Set, s *secure.Server) *configSources {
	c := &configSources{
		opts: opts, decoder: d, shards: all, secure: s, log: opts.Log, wanted: make(chan []config.ConfigSource, 1),
		running: map[string]*configSourceRun{}, refused: map[string]string{},
	}
	if text, _, err := disk.Read(disk.OS, opts.MeshConfig, disk.MaxFile); opts.MeshConfig != "" && err == nil {
		for _, doc := range config.Split(opts.MeshConfig, text) {
			if o, _ := d.DecodeMeshConfig(doc); o != nil {
				for _, s := range sourcesOf(o) {
					c.join(s)
				}
			}
		}
	}
	return c
}

// sourcesOf lists what a mesh configuration names; nil: there is none.
func sourcesOf(o *config.Object) []config.ConfigSource {
	if o == nil {
		return nil
	}
	out, _ := config.ConfigSourcesOf(config.Spec[*meshconfig.MeshConfig](o))
	return out
}

// tell says what the turn changed of the mesh configuration. The loop calls it.
func (c *configSources) tell(g *compile.Graph) {
	for change := range table.Changes(g.In.Mesh) {
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

// run reads the sources, and follows what the mesh configuration says, until ctx ends.
func (c *configSources) run(ctx context.Context) error {
	c.mu.Lock()
	for _, one := range c.running {
		c.begin(one)
	}
	c.mu.Unlock()
	for {
		select {
		case now := <-c.wanted:
			c.set(now)
		case <-ctx.Done():
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, one := range c.running {
				one.end()
			}
			return nil
		}
	}
}

// set says which there are from now on. What one has said that is read otherwise now stays until it is read again; what one has said that
// is named no more goes.
func (c *configSources) set(now []config.ConfigSource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := map[string]config.ConfigSource{}
	for _, s := range now {
		names[s.Name()] = s
	}
	for name, one := range c.running {
		s, stays := names[name]
		if stays && s.Services == one.Services && proto.Equal(s.TLS, one.TLS) {
			continue
		}
		one.end()
		delete(c.running, name)
		c.shards.Leave(one.source.Name(), stays)
		if !stays {
			c.log.Info("a config source is read no more: the mesh configuration does not name it", "source", name)
		}
	}
	for name := range c.refused {
		if _, stays := names[name]; !stays {
			delete(c.refused, name)
		}
	}
	for _, s := range now {
		if c.running[s.Name()] != nil {
			continue
		}
		if one := c.join(s); one != nil {
			c.begin(one)
		}
	}
}

// join makes a source that stands among the others, and is not read yet; nil: it cannot be read.
func (c *configSources) join(s config.ConfigSource) *configSourceRun {
	from, err := c.open(s)
	if from == nil && err == nil {
		return nil // it is read already
	}
	var sink source.Sink
	if err == nil {
		sink, err = c.shards.Join(from.Name(), c.opts.ClusterWait)
	}
	if err != nil {
		if c.refused[s.Name()] != err.Error() {
			c.refused[s.Name()] = err.Error()
			c.log.Error("a config source cannot be read", "source", s.Name(), "error", err)
		}
		return nil
	}
	delete(c.refused, s.Name())
	one := &configSourceRun{ConfigSource: s, source: from, sink: sink, stop: func() {}}
	c.running[s.Name()] = one
	c.log.Info("a config source is read", "source", s.Name())
	return one
}

// begin has a source read, until end.
func (c *configSources) begin(one *configSourceRun) {
	ctx, stop := context.WithCancel(context.Background())
	one.stop, one.done = stop, make(chan struct{})
	go func() {
		defer close(one.done)
		if err := one.source.Run(ctx, one.sink); err != nil {
			c.log.Error("a config source is read no more", "source", one.Name(), "error", err)
		}
	}()
}

func (o *configSourceRun) end() {
	o.stop()
	if o.done != nil {
		<-o.done
	}
}

// open makes the source of an entry; nil without an error: what it names is read without it.
func (c *configSources) open(s config.ConfigSource) (source.Source, error) {
	switch s.Scheme {
	case config.FolderScheme:
		return file.New(file.Options{Name: s.Name(), Dirs: []string{s.Place}, Decoder: c.decoder, Log: c.log})
	case config.XDSScheme:
		how, err := c.dial(s)
		if err != nil {
			return nil, err
		}
		name, _ := os.Hostname()
		return mcpxds.New(s.Name(), mcpxds.Options{
			Options: how, Services: s.Services, Namespace: c.opts.Namespace, Name: name,
		}, c.decoder, c.log)
	case config.ClusterScheme:
		return nil, nil // the own cluster is read wherever there is one
	}
	return nil, fmt.Errorf("%s:// is not read yet", s.Scheme)
}

// dial is how the server of an entry is called. Without settings it is in plaintext, as Istio's control plane does.
func (c *configSources) dial(s config.ConfigSource) (dial.Options, error) {
	t := s.TLS
	out := dial.Options{Address: s.Place}
	switch t.GetMode() {
	case networking.ClientTLSSettings_DISABLE:
		out.Plaintext = true
		return out, nil
	case networking.ClientTLSSettings_ISTIO_MUTUAL:
		out.Mesh = c.secure.Own
		out.ServerName = secure.ServerNames(c.opts.Namespace, "")[0]
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
