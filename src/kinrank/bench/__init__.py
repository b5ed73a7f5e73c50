"""Methods and data -> measured numbers: accuracy, speed, memory. What `kinrank bench` prints."""
