// Package values reads the values of Istio's chart that the injector needs: images, resources, ports, log levels.
//
//	v := values.Default(cluster, domain); json.Unmarshal(text, &v); v.Check(name)
//
// It must not know pods, nor what a value is used for. Start reading in values.go.
package values
