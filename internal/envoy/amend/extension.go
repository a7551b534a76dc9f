package amend

import (
	"errors"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"google.golang.org/protobuf/proto"

	"fairway/internal/envoy"
)

// Extension returns the patch's extension config, if the patch applies to one of the contexts of a proxy's traffic; nil: none.
func (p *Patch) Extension(contexts ...Context) *corev3.TypedExtensionConfig {
	e, ok := p.value.(*corev3.TypedExtensionConfig)
	if !ok {
		return nil
	}
	for _, c := range contexts {
		if p.in(c) {
			return e
		}
	}
	return nil
}

// Extend returns the extension config after the patch is applied. Extension must not be nil for the patch. have is the existing extension
// config of the same name; nil: none. An ADD does nothing if there is one already; other operations do nothing if there is none.
func (p *Patch) Extend(have *corev3.TypedExtensionConfig) (now *corev3.TypedExtensionConfig, matched bool, _ error) {
	if (p.op == opAdd) != (have == nil) {
		return have, false, nil
	}
	out := proto.CloneOf(p.value.(*corev3.TypedExtensionConfig))
	if p.merges() {
		out = proto.CloneOf(have)
		open := &Open{}
		if err := p.mergeInto(open, out); err != nil {
			return have, false, err
		}
		open.Pack()
	}
	if err := repack(out); err != nil {
		return have, false, err
	}
	return out, true, nil
}

// repack validates the packed config and packs it again.
func repack(e *corev3.TypedExtensionConfig) error {
	if e.GetTypedConfig() == nil {
		return errors.New("it has no typed_config")
	}
	m, err := e.GetTypedConfig().UnmarshalNew()
	if err != nil {
		return err
	}
	if v, ok := m.(envoy.Message); ok {
		if err := v.ValidateAll(); err != nil {
			return err
		}
	}
	e.TypedConfig = envoy.Any(m)
	return nil
}
