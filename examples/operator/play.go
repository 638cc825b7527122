package main

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/examples/internal/cluster"
	"github.com/tidings/tidings/examples/internal/website"
)

// play gives the operator something to do. gone has a line for each deleted service, and ended gets the result of
// the controller.
func (o *operator) play(ctx context.Context, gone cluster.News, ended chan error) error {
	steps := []struct {
		what string
		do   func() error
		news []cluster.News // where the step's lines come from, in order
	}{
		{"a website is created", func() error {
			_, err := o.websiteClient.Create(ctx, website.New("blog", "blog.example.com"))
			return err
		}, []cluster.News{o.news, o.news}},
		{"somebody deletes its service", func() error {
			return o.serviceClient.Delete(ctx, "blog", metav1.DeleteOptions{})
		}, []cluster.News{gone, o.news}},
		{"the website's host changes", func() error {
			return o.websiteClient.SetHost(ctx, "blog", "news.example.com")
		}, []cluster.News{o.news, o.news}},
		{"the website is deleted", func() error {
			return o.websiteClient.Delete(ctx, "blog")
		}, []cluster.News{gone}},
	}
	for _, step := range steps {
		fmt.Println("#", step.what)
		if err := step.do(); err != nil {
			return err
		}
		for _, news := range step.news {
			if err := news.PrintUnless(ctx, ended); err != nil {
				return err
			}
		}
	}
	return nil
}
