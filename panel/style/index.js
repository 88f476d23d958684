import './index.css';
import './conversation.css';
import './composer.css';
import './notebook.css';
