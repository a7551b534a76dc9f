// Package interpret answers what an Envoy does with a request, and why: Explain reads the resources that a proxy holds and follows the
// request through listener, filter chain, filters, virtual host, route, cluster and endpoints.
//
//	answer, err := interpret.Explain(config, interpret.Request{
//		Direction: interpret.Outbound, Host: "reviews", Port: 9080, Method: "GET", Path: "/", Authority: "reviews:9080",
//	})
//	fmt.Print(answer.Text())
//
// An answer is a list of ways. There is more than one if chances decide (weights, percentages), or if something decides that the
// interpreter cannot know, such as an external authorizer. Each way has its steps, its outcome, its probability, its conditions and its
// doubts. The package never guesses: a condition or a doubt names everything that it cannot interpret.
//
// Package way holds the answer and follows each way, hosts finds addresses, chains picks the filter chain, and upstream the endpoints;
// paths takes paths and hosts apart. The code reads like Envoy's, and calls Choose wherever the way may split.
//
// The package is pure: it imports the messages of Envoy, and knows neither the control plane nor how a proxy gets its resources. All
// input may be hostile. Work, depth and ways are bounded; an invalid message is an error that names the resource and the field.
package interpret
