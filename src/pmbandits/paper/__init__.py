"""The paper's experiments, each as a small specification with its claims."""
