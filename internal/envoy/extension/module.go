package extension

import (
	"encoding/base64"
	"errors"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/envoy"
)

// Order is the message that an agent gets for an extension with a module: what to fetch, and the configuration for its Envoy.
type Order struct {
	Module
	Config *corev3.TypedExtensionConfig // without the module
}

// The fields of an encoded order.
const (
	orderURL     = "url"
	orderSHA256  = "sha256"
	orderVersion = "version"
	orderSecret  = "secret"
	orderConfig  = "config"
)

// Order returns the resource for agents; equal orders have equal bytes. secret holds the credentials for the registry.
func (e *Extension) Order(secret string) *envoy.Encoded {
	config, err := proto.MarshalOptions{Deterministic: true}.Marshal(e.Config)
	if err != nil {
		return &envoy.Encoded{Err: err}
	}
	fields := map[string]*structpb.Value{}
	for _, f := range []struct{ name, value string }{
		{orderURL, e.Module.URL}, {orderSHA256, e.Module.SHA256}, {orderVersion, e.Module.Version}, {orderSecret, secret},
		{orderConfig, base64.StdEncoding.EncodeToString(config)},
	} {
		if f.value != "" {
			fields[f.name] = structpb.NewStringValue(f.value)
		}
	}
	return envoy.Sealed(proto.MarshalOptions{Deterministic: true}.Marshal(&structpb.Struct{Fields: fields}))
}

// DecodeOrder decodes the output of Order.
func DecodeOrder(body []byte) (Order, error) {
	var s structpb.Struct
	if err := proto.Unmarshal(body, &s); err != nil {
		return Order{}, fmt.Errorf("read the order: %w", err)
	}
	text := func(name string) string { return s.GetFields()[name].GetStringValue() }
	o := Order{
		Module: Module{URL: text(orderURL), SHA256: text(orderSHA256), Version: text(orderVersion), Secret: text(orderSecret)},
		Config: &corev3.TypedExtensionConfig{},
	}
	o.Always = o.Version != ""
	config, err := base64.StdEncoding.DecodeString(text(orderConfig))
	if err != nil {
		return Order{}, fmt.Errorf("read the order: %w", err)
	}
	if err := proto.Unmarshal(config, o.Config); err != nil {
		return Order{}, fmt.Errorf("read the order: %w", err)
	}
	if o.URL == "" || o.Config.GetName() == "" {
		return Order{}, errors.New("the order names no module, or no filter")
	}
	return o, nil
}

// WithoutSecret returns an encoded order without the registry's credentials, so that it may be stored on disk. Bytes that are not an order
// are returned unchanged.
func WithoutSecret(order []byte) []byte {
	var s structpb.Struct
	if proto.Unmarshal(order, &s) != nil || s.GetFields()[orderSecret] == nil {
		return order
	}
	delete(s.Fields, orderSecret)
	out, err := proto.MarshalOptions{Deterministic: true}.Marshal(&s)
	if err != nil {
		return nil
	}
	return out
}

// ReportType is the type of the request that an agent sends to report modules that it could not get, like bootstrap.PatchReportType for
// patches.
const ReportType = "type.googleapis.com/fairway.v1.ModulesFailing"
