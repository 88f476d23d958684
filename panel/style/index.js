import './index.css';
import './notebook.css';
